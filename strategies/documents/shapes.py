"""Shapes: are the members that Muster reads of the type that Kubernetes says?

The API server has checked an admitted object against its CRD. A file given to the CLI has passed no such check, and a
plugin should not crash on `command: trl sft`. Checked here once, with the field path; everything after relies on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from strategies import paths
from strategies.findings import Finding, error
from strategies.paths import Path

__all__ = ["check"]

_STRINGS = [str]
_ENV = [{"name": str, "value": str, "valueFrom": {}}]
_RESOURCES = {"limits": {}, "requests": {}, "claims": [{"name": str}]}
_METADATA = {
    "name": str,
    "namespace": str,
    "generateName": str,
    "labels": {},
    "annotations": {},
    "ownerReferences": [{}],
}
_CONTAINER = {"name": str, "command": _STRINGS, "args": _STRINGS, "env": _ENV, "ports": [{}], "resources": _RESOURCES}
_POD_SPEC = {"containers": [_CONTAINER], "resourceClaims": [{"name": str}]}
_JOB = {
    "metadata": {"labels": {}, "annotations": {}},
    "spec": {"parallelism": int, "completions": int, "template": {"metadata": {"labels": {}}, "spec": _POD_SPEC}},
}
_JOBSET_SPEC = {
    "network": {"subdomain": str, "enableDNSHostnames": bool, "publishNotReadyAddresses": bool},
    "coordinator": {"replicatedJob": str, "jobIndex": int, "podIndex": int},
    "replicatedJobs": [{"name": str, "replicas": int, "template": _JOB}],
}
_RUNTIME = {
    "metadata": _METADATA,
    "spec": {
        "mlPolicy": {"numNodes": int, "torch": {}},
        "template": {"metadata": {"labels": {}, "annotations": {}}, "spec": _JOBSET_SPEC},
    },
}
_SHAPES: dict[str, Any] = {
    "TrainJob": {
        "metadata": _METADATA,
        "spec": {
            "runtimeRef": {"name": str, "kind": str, "apiGroup": str},
            "runtimePatches": [{"manager": str}],
            "trainer": {
                "image": str,
                "command": _STRINGS,
                "args": _STRINGS,
                "env": _ENV,
                "numNodes": int,
                "numProcPerNode": int,
                "resourcesPerNode": _RESOURCES,
            },
        },
    },
    "JobSet": {"metadata": _METADATA, "spec": _JOBSET_SPEC},
    "TrainingRuntime": _RUNTIME,
    "ClusterTrainingRuntime": _RUNTIME,
}
_WORDS = {str: "a string", int: "an integer", bool: "true or false"}


def check(document: Mapping[str, Any]) -> list[Finding]:
    """Return an error for each member of the wrong type; null counts as missing, as in Kubernetes.

    Args:
        document: a TrainJob, a JobSet or a runtime; any other kind has no errors.
    """
    shape = _SHAPES.get(str(document.get("kind")))
    if shape is None or _fits(document, shape):
        return []
    return [
        error(paths.field(document, path), paths.lookup(document, path), f"must be {wanted}", rule="core/shape")
        for path, wanted in _misfits(document, shape, ())
    ]


def _fits(value: Any, shape: Any) -> bool:
    """Answer at once for the documents that fit, which are nearly all; `_misfits` then says where one does not."""
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(entry, shape[0]) for entry in value)
    if not isinstance(shape, dict):
        return type(value) is shape
    if not isinstance(value, dict):
        return False
    for member, inner in shape.items():
        child = value.get(member)
        if child is not None and type(child) is not inner and (type(inner) is type or not _fits(child, inner)):
            return False
    return True


def _misfits(value: Any, shape: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            yield path, "an object"
            return
        for member, inner in shape.items():
            child = value.get(member)
            if child is not None:
                yield from _misfits(child, inner, (*path, member))
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield path, "a list"
            return
        for index, entry in enumerate(value):
            yield from _misfits(entry, shape[0], (*path, index))
    elif type(value) is not shape:
        yield path, _WORDS[shape]
