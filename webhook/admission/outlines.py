"""Outlines: the few members that tell what governs a job, taken from a document without looking at the rest.

They decide by which mode a job is answered that cannot be evaluated: one that is beyond its budget, or whose evaluation
failed. Taking them costs the same for any document.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from muster.strategies.documents import names
from muster.webhook.cluster import readers

__all__ = ["Outlines", "is_changed", "is_child_of", "is_made_by_trainer", "outline"]

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


def is_made_by_trainer(document: Mapping[str, Any]) -> bool:
    """Whether the object says that a TrainJob owns it: a JobSet that Trainer made, or that an author calls so."""
    metadata = document.get("metadata")
    owners = _first(metadata.get("ownerReferences")) if isinstance(metadata, dict) else None
    return any(isinstance(each, dict) and each.get("kind") == "TrainJob" for each in owners or ())


def is_child_of(document: Mapping[str, Any], owner: Mapping[str, Any] | None) -> bool:
    """Whether a JobSet has the name that Trainer gives to the one of `owner`, a TrainJob that was found."""
    if owner is None or "spec" not in owner:
        return False
    name = (owner.get("metadata") or {}).get("name")
    return bool(name) and name == (document.get("metadata") or {}).get("name")


def is_changed(document: Mapping[str, Any]) -> bool:
    """Whether the object says that Muster has changed it; what any author can write too."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and names.APPLIED_ANNOTATION in annotations


class Outlines:
    """A reader that answers with outlines.

    Args:
        cluster: has the documents.
    """

    whole = True

    def __init__(self, cluster: readers.ClusterReader) -> None:
        self._cluster = cluster

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return the outline of a document, with the exceptions of the cluster's own `get`."""
        document = self._cluster.get(ref)
        return None if document is None else outline(document)

    def every(self, kind: str, labels: readers.Labels) -> Iterable[readers.Document] | None:
        """Return None: no outline needs all documents of a kind."""
        del kind, labels
        return None
