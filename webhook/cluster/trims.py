"""What is kept of the documents of each kind: only the parts that are read.

Status, managed fields and kubectl's copy of the manifest are half of a typical object and no decision reads them, so
they are dropped before an object is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.strategies.documents import paths

__all__ = ["metadata_only", "placing", "trimmed"]

Document = Mapping[str, Any]
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def trimmed(document: Document) -> dict[str, Any]:
    """Return an object without status, managed fields and kubectl's copy of the manifest."""
    kept = {key: value for key, value in document.items() if key != "status"}
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key != "managedFields"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    kept["metadata"] = metadata
    return kept


def metadata_only(document: Document) -> dict[str, Any]:
    """Return only an object's metadata, trimmed."""
    return {"metadata": trimmed(document)["metadata"]}


def placing(document: Document) -> dict[str, Any]:
    """Return the parts of a node that decide whether pods fit; images and conditions, most of it, change often."""
    kept: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
    for part, member in (("metadata", "name"), ("metadata", "labels"), ("spec", "taints")):
        found = paths.lookup(document, (part, member))
        if found not in (paths.ABSENT, None):
            kept[part][member] = found
    memory = paths.lookup(document, ("status", "allocatable", "memory"))
    if memory not in (paths.ABSENT, None):
        kept["status"] = {"allocatable": {"memory": memory}}
    return kept
