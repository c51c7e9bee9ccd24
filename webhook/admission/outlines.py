"""Outlines: the few members that tell what governs a job, taken from a document without looking at the rest.

They decide by which mode a job is answered that cannot be evaluated: one that is beyond its budget, or whose evaluation
failed. Taking them costs the same for any document.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from muster.strategies.documents import decoding, names
from muster.webhook.cluster import readers

__all__ = ["Outlines", "outline"]

_MOST = 1000
_METADATA = ("name", "namespace", "uid")
_LABELS = (names.FRAMEWORK_LABEL, names.MODE_LABEL)


def outline(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return kind, name, uid, owners, the labels of framework and mode, and the reference to a runtime.

    Args:
        document: any JSON object; what it has in another shape is left as it is, for `decoding.check` to find.
    """
    metadata, spec = document.get("metadata"), document.get("spec")
    taken = {"kind": document.get("kind"), "metadata": metadata, "spec": spec}
    if isinstance(metadata, dict):
        taken["metadata"] = _members(metadata, _METADATA) | {
            "labels": _taken(metadata.get("labels"), _LABELS),
            "ownerReferences": _first(metadata.get("ownerReferences")),
        }
    if isinstance(spec, dict):
        taken["spec"] = {"runtimeRef": _taken(spec.get("runtimeRef"), ("name", "kind", "apiGroup"))}
    return taken


def _members(holder: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    return {member: holder[member] for member in wanted if member in holder}


def _taken(value: Any, wanted: Iterable[str]) -> Any:
    return _members(value, wanted) if isinstance(value, dict) else value


def _first(value: Any) -> Any:
    """Return the owners that fit into any budget; the API server allows one controller, which is usually the first."""
    return list(itertools.islice(value, _MOST)) if isinstance(value, list) else value


class Outlines:
    """A reader that answers with outlines.

    Args:
        cluster: has the documents.
    """

    whole = True

    def __init__(self, cluster: readers.ClusterReader) -> None:
        self._cluster = cluster

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return the outline of a document, None for a snapshot that cannot be read, which any author can write.

        Raises:
            NotCached: as the cluster's own `get`.
        """
        try:
            document = self._cluster.get(ref)
        except readers.SnapshotInvalid:
            return None
        head = None if document is None else outline(document)
        is_snapshot = ref.kind == "RuntimeSnapshot"
        return None if head is None or (is_snapshot and decoding.check(head, ref.kind)) else head

    def every(self, kind: str, labels: readers.Labels) -> Iterable[readers.Document] | None:
        """Return None: no outline needs all documents of a kind."""
        del kind, labels
        return None
