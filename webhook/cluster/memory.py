"""A cluster made of documents: what the offline CLI, the tests and the benchmarks read from.

`get` returns None for a document that was not given and never asks for a fetch. Whether that document then does not
exist, or is only not known, is for the caller to say (`whole`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.strategies.documents.runtimes import Version
from muster.webhook.cluster import kinds, readers

__all__ = ["DuplicateError", "InMemoryReader", "UnnamedError"]


class DuplicateError(ValueError):
    """Two documents have the same kind, namespace and name."""

    def __init__(self, ref: readers.Ref, first: str, second: str) -> None:
        super().__init__(f"{ref} is given twice: in {first} and in {second}; remove one")
        self.ref = ref


class UnnamedError(ValueError):
    """A document without a name cannot be referred to."""

    def __init__(self, kind: str, source: str) -> None:
        super().__init__(f"{source}: {kind} has no metadata.name; give it one")


class InMemoryReader:
    """Answers from the documents it was given.

    Args:
        documents: raw objects of any kind; kinds that Muster does not read and ordinary ConfigMaps are ignored.
        default_namespace: the namespace of documents of a namespaced kind that do not name one.
        whole: whether a document that was not given does not exist, as `ClusterReader.whole`.
    """

    def __init__(
        self, documents: Iterable[readers.Document] = (), *, default_namespace: str = "default", whole: bool = True
    ) -> None:
        self.whole = whole
        self.trainer: Version | None = None
        self._default_namespace = default_namespace
        self._documents: dict[readers.Ref, readers.Document | readers.SnapshotInvalid] = {}
        self._sources: dict[readers.Ref, str] = {}
        for number, document in enumerate(documents, 1):
            self.add(document, source=f"document {number}")

    def add(self, document: readers.Document, source: str = "an unnamed source") -> readers.Ref | None:
        """Add one raw object; return its `Ref`, or None when its kind is not read.

        Args:
            document: an object, whose parts are shared, not copied; a snapshot ConfigMap without a runtime is accepted
                here and fails when it is read.
            source: where it comes from, for errors, such as `jobs.yaml document 2`.

        Raises:
            DuplicateError: the object was added before; both sources are named and the first one stays.
            UnnamedError: the object has no name.
        """
        kind = kinds.kind_of(document)
        if kind is None:
            return None
        metadata = document.get("metadata")
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
            raise UnnamedError(kind.served, source)
        ref = kind.ref(document)
        if ref is None:
            return None
        if kind.namespaced and not ref.namespace:
            ref = ref._replace(namespace=self._default_namespace)
        if ref in self._documents:
            raise DuplicateError(ref, self._sources[ref], source)
        try:
            self._documents[ref] = kind.read(ref, document)
        except readers.SnapshotInvalid as error:
            self._documents[ref] = error
        self._sources[ref] = source
        return ref

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return the document, trimmed as a live reader would; None when it was not given. See `ClusterReader.get`."""
        kinds.named(ref.kind)
        document = self._documents.get(ref)
        if isinstance(document, readers.SnapshotInvalid):
            raise document.with_traceback(None)
        return document

    def every(self, kind: str, labels: readers.Labels) -> Iterator[readers.Document]:
        """Yield the documents of a kind that were given and can be read. See `ClusterReader.every`."""
        kinds.named(kind)
        found = (document for ref, document in self._documents.items() if ref.kind == kind)
        readable = (document for document in found if not isinstance(document, readers.SnapshotInvalid))
        return (document for document in readable if readers.is_chosen(document, labels))
