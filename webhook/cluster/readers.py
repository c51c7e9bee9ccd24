"""The interface between a decision and the cluster.

A decision is pure and synchronous, so it cannot wait for the network. It asks a reader, which answers from memory. When
a live reader cannot answer, it raises `NotCached`; the caller fetches that document and decides again. Files, tests,
benchmarks and the live cluster therefore all run the same decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from muster.strategies.documents.runtimes import NEWEST, Version

__all__ = [
    "ClusterBusy",
    "ClusterError",
    "ClusterReader",
    "ClusterUnavailable",
    "Document",
    "Labels",
    "NotCached",
    "Ref",
    "SnapshotInvalid",
    "UnknownKindError",
    "is_chosen",
    "trainer_of",
]

Labels = Mapping[str, Collection[str]]
"""A selector of documents: label keys, each with the values that match."""

# Any: a raw Kubernetes object as the API server sent it; the reader must not assume more than it checks.
Document = Mapping[str, Any]


class Ref(NamedTuple):
    """Names one document.

    Attributes:
        kind: a name of `kinds.KINDS`, such as `TrainJob` or `RuntimeSnapshot`.
        namespace: empty for cluster-scoped kinds.
        name: `metadata.name`; for a `RuntimeSnapshot` the name of its TrainJob.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`TrainJob team-a/llama`, or `Namespace team-a` for what has no namespace."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ClusterReader(Protocol):
    """Answers from memory what the documents of the cluster contain."""

    @property
    def whole(self) -> bool:
        """Whether what it does not find does not exist; False where only some documents were given."""
        ...

    def get(self, ref: Ref) -> Document | None:
        """Return the document, or None when it is known not to exist. Never does I/O.

        Raises:
            NotCached: the reader cannot tell without asking the API server.
            SnapshotInvalid: the snapshot exists and cannot be read as a runtime.
            UnknownKindError: Muster does not read this kind.
        """
        ...

    def every(self, kind: str, labels: Labels) -> Iterable[Document] | None:
        """Return all documents of a kind, each parsed when it is yielded; None when they are not all in memory.

        Nothing is fetched: the caller must be able to work without an answer. Never does I/O.

        Args:
            kind: a name of `kinds.KINDS`.
            labels: only documents that have, for each of these labels, one of its values.

        Raises:
            UnknownKindError: no reader knows such a kind.
        """
        ...


def is_chosen(document: Document, labels: Labels) -> bool:
    """Whether a document has the labels that `ClusterReader.every` was asked for."""
    own = (document.get("metadata") or {}).get("labels") or {}
    return not labels or (isinstance(own, dict) and all(own.get(key) in values for key, values in labels.items()))


def trainer_of(cluster: ClusterReader) -> Version:
    """Return the version of Trainer that a cluster has; the newest where its reader does not know."""
    found = getattr(cluster, "trainer", None)
    return found if isinstance(found, Version) else NEWEST


class NotCached(Exception):  # noqa: N818 - a question to the caller, not a fault
    """The cache cannot answer; fetch `ref` once and ask again."""

    def __init__(self, ref: Ref) -> None:
        super().__init__(f"{ref} is not in the cache; fetch it from the API server and ask again")
        self.ref = ref


class UnknownKindError(LookupError):
    """A caller asked for a kind that is not in `kinds.KINDS`."""

    def __init__(self, kind: str, known: tuple[str, ...]) -> None:
        super().__init__(f"kind {kind!r} is not read by Muster; it reads {', '.join(known)}")
        self.kind = kind


class SnapshotInvalid(ValueError):  # noqa: N818 - reads as the sentence it is
    """A runtime snapshot exists and its YAML is not a runtime."""

    def __init__(self, namespace: str, configmap: str, reason: str) -> None:
        super().__init__(
            f"ConfigMap {namespace}/{configmap}: data.runtime is not a readable runtime: {reason}; "
            "delete the ConfigMap: Trainer then writes it again from the live runtime"
        )
        self.namespace = namespace
        self.configmap = configmap
        self.reason = reason


class ClusterError(Exception):
    """A fetch got no answer; the document may or may not exist."""


class ClusterUnavailable(ClusterError):  # noqa: N818 - reads as the sentence it is
    """The API server did not answer in time, refused, or could not be reached; the cause is chained."""


class ClusterBusy(ClusterError):  # noqa: N818 - reads as the sentence it is
    """Too many fetches are under way, so this document was not fetched."""
