"""What is kept of the documents of each kind: only the parts that are read.

Status, managed fields and kubectl's copy of the manifest are half of a typical object and no decision reads them, so
they are dropped before an object is stored. The controllers keep even less, since they follow pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.strategies.documents import paths

__all__ = ["job_set", "managed", "metadata_only", "placing", "pod", "rank", "trimmed"]

Document = Mapping[str, Any]
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_CLAIMS = "resourceClaims"


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


def _only(document: Document, *keys: str) -> dict[str, Any]:
    return {key: document[key] for key in keys if key in document}


def _metadata(document: Document) -> dict[str, Any]:
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels")
    return _only(document["metadata"], *kept, "annotations")


def pod(document: Document) -> dict[str, Any]:
    """Return the parts of a pod that show which claims it names, whether it waits, and whether it has ended."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    metadata = {key: value for key, value in _metadata(document).items() if key != "annotations"}
    return {
        "metadata": metadata | _only(document["metadata"], "finalizers", "ownerReferences"),
        "spec": _only(spec, "schedulingGates", _CLAIMS),
        "status": _only(status, "phase"),
    }


def rank(document: Document) -> dict[str, Any]:
    """Return the parts of a pod that show whose it is and what its containers left as termination messages."""
    metadata = {key: value for key, value in _metadata(document).items() if key != "annotations"}
    status = _only(document.get("status") or {}, "containerStatuses", "initContainerStatuses")
    return {"metadata": metadata | _only(document["metadata"], "ownerReferences"), "status": status}


def managed(document: Document) -> dict[str, Any]:
    """Return the metadata of a claim or template that Muster made, and whether devices are allocated to it."""
    status = document.get("status") or {}
    return {
        "metadata": _metadata(document),
        "status": {"allocation": bool(status.get("allocation") or status.get("reservedFor"))},
    }


def job_set(document: Document) -> dict[str, Any]:
    """Return the parts of a JobSet that show how many pods it makes, the claims they name, and whether it has ended."""
    jobs = [_replicated(each) for each in (document.get("spec") or {}).get("replicatedJobs") or ()]
    metadata = {key: value for key, value in _metadata(document).items() if key != "annotations"}
    status = _only(document.get("status") or {}, "terminalState", "conditions")
    return {"metadata": metadata, "spec": {"replicatedJobs": jobs}, "status": status}


def _replicated(document: Document) -> dict[str, Any]:
    job = (document.get("template") or {}).get("spec") or {}
    pod = job.get("template") or {}
    kept = {"metadata": _only(pod.get("metadata") or {}, "labels"), "spec": _only(pod.get("spec") or {}, _CLAIMS)}
    return {
        **_only(document, "name", "replicas"),
        "template": {"spec": {**_only(job, "parallelism", "completions"), "template": kept}},
    }
