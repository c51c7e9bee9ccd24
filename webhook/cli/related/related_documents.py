"""Inputs: all documents of one input, by their kind and namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import names, trainjobs
from muster.strategies.documents.decoding import items, member
from muster.strategies.documents.pods import CLAIM_SOURCES
from muster.webhook.kubeyaml.sources import Source

__all__ = ["Inputs", "items", "member", "name_of"]

_GROUPS = {
    "TrainJob": names.TRAINER_GROUP,
    "JobSet": names.JOBSET_GROUP,
    **dict.fromkeys(trainjobs.RUNTIME_KINDS, names.TRAINER_GROUP),
    **dict.fromkeys(CLAIM_SOURCES.values(), "resource.k8s.io"),
    **dict.fromkeys(("LocalQueue", "ClusterQueue"), "kueue.x-k8s.io"),
    "NetworkPolicy": "networking.k8s.io",
    "ComputeDomain": "resource.nvidia.com",
}
"""Of kinds outside the core group; a Service of Knative is not a Service."""


class Inputs:
    """The documents of one input, each looked at once.

    Args:
        sources: the documents, of any kind.
        namespace: the namespace of documents that name none.

    Attributes:
        sources: the documents, in their order.
        memory: what was found out about all of them, by what found it.
    """

    def __init__(self, sources: Sequence[Source] = (), namespace: str = "default") -> None:
        self.sources = sources
        self.memory: dict[Any, Any] = {}
        self._namespace = namespace
        self._found: dict[tuple[str, str], dict[str, list[Source]]] = {}
        for source in sources:
            name = name_of(source.document)
            if name and source.group == _GROUPS.get(source.kind, ""):
                by_name = self._found.setdefault((source.kind, _written(source.document)), {})
                by_name.setdefault(name, []).append(source)

    def namespace_of(self, document: Mapping[str, Any]) -> str:
        """Return the namespace in which a document would be created."""
        return _written(document) or self._namespace

    def is_in(self, document: Mapping[str, Any], namespace: str) -> bool:
        """Whether a document is of a namespace; one that names none is in any."""
        return _written(document) in ("", namespace)

    def named(self, kind: str, namespace: str, name: object) -> list[Source]:
        """Return the documents of a kind, a namespace and a name; one that names no namespace is in any."""
        found: list[Source] = []
        for where in dict.fromkeys((namespace, "")) if isinstance(name, str) else ():
            found += self._found.get((kind, where), {}).get(name, ())  # type: ignore[call-overload]  # a text
        return found

    def of_kind(self, kind: str, namespace: str) -> Iterator[Source]:
        """Yield the documents of a kind in a namespace that have a name."""
        for where in dict.fromkeys((namespace, "")):
            for found in self._found.get((kind, where), {}).values():
                yield from found

    def has(self, namespace: str, *kinds: str) -> bool:
        """Whether a namespace has a document of any of the kinds."""
        return any((kind, where) in self._found for kind in kinds for where in (namespace, ""))


def _written(document: Mapping[str, Any]) -> str:
    written = member(document, "metadata").get("namespace")
    return written if isinstance(written, str) else ""


def name_of(document: Mapping[str, Any]) -> str:
    """Return `metadata.name`; "" where there is none, or none that is a text."""
    name = member(document, "metadata").get("name")
    return name if isinstance(name, str) else ""
