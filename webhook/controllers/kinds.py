"""The kinds that the controllers follow, each only as far as labels can narrow it, and without what they never read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strategies import names
from webhook.cluster import kinds
from webhook.controllers import views

__all__ = ["CLAIM", "EVENT", "JOBSET", "LEASE", "NAMESPACE", "OBJECTS", "POD", "TEMPLATE"]

Document = Mapping[str, Any]
_RESOURCES = "resource.k8s.io"
_CLAIMS = "resourceClaims"
_OURS = f"{names.PROFILE_LABEL},{views.MANAGED_LABEL}={views.MANAGER}"


def _only(document: Document, *keys: str) -> dict[str, Any]:
    return {key: document[key] for key in keys if key in document}


def _metadata(document: Document) -> dict[str, Any]:
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels")
    return _only(document["metadata"], *kept, "annotations")


def _pod(document: Document) -> dict[str, Any]:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    metadata = {key: value for key, value in _metadata(document).items() if key != "annotations"}
    return {
        "metadata": metadata | _only(document["metadata"], "finalizers", "ownerReferences"),
        "spec": _only(spec, "schedulingGates", _CLAIMS),
        "status": _only(status, "phase"),
    }


def _object(document: Document) -> dict[str, Any]:
    status = document.get("status") or {}
    return {
        "metadata": _metadata(document),
        "status": {"allocation": bool(status.get("allocation") or status.get("reservedFor"))},
    }


def _jobset(document: Document) -> dict[str, Any]:
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


def _kind(served: str, group: str, version: str, **options: Any) -> kinds.Kind:
    return kinds.Kind(served, served, group, version, served.lower() + "s", page=50, **options)


POD = _kind("Pod", "", "v1", selector=names.PROFILE_LABEL, keep=_pod)
JOBSET = _kind("JobSet", names.JOBSET_GROUP, "v1alpha2", selector=names.PROFILE_LABEL, keep=_jobset)
CLAIM = _kind("ResourceClaim", _RESOURCES, "v1", selector=_OURS, keep=_object)
TEMPLATE = _kind("ResourceClaimTemplate", _RESOURCES, "v1", selector=_OURS, keep=_object)
LEASE = _kind("Lease", "coordination.k8s.io", "v1")
EVENT = _kind("Event", "", "v1")
NAMESPACE = kinds.KINDS["Namespace"]
OBJECTS: Mapping[str, kinds.Kind] = {"ResourceClaim": CLAIM, "ResourceClaimTemplate": TEMPLATE}
"""What the controllers write, by kind."""
