"""Comparisons of two documents: all differences at once, by path, so that a failure reads like a diff."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from unittest.mock import ANY

__all__ = ["Difference", "applied", "differences", "explained", "recorded", "without_bookkeeping"]

Difference: TypeAlias = tuple[str, Any, Any]
"""Path, offline value, stored value; `...` stands for a missing value."""

_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "namespace", "generateName")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_APPLIED = "muster.dev/applied"

# What the API server, Trainer's and JobSet's defaulters write into a job that does not say so itself, by path.
_DEFAULTS: dict[str, Any] = {
    "spec.managedBy": "trainer.kubeflow.org/trainjob-controller",
    "spec.suspend": False,
    "spec.runtimeRef.apiGroup": "trainer.kubeflow.org",
    "spec.runtimeRef.kind": "ClusterTrainingRuntime",
    "spec.network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    "spec.successPolicy": {"operator": "All"},
    "spec.startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "spec.replicatedJobs[*].groupName": "default",
    "spec.replicatedJobs[*].replicas": 1,
    "spec.replicatedJobs[*].template.spec.completionMode": "Indexed",
}
_STAMP = "spec.runtimePatches[*].time"


def differences(offline: Mapping[str, Any], stored: Mapping[str, Any]) -> list[Difference]:
    """Return where two jobs differ, but for bookkeeping, status and what is defaulted in any job."""
    found = _compared(without_bookkeeping(offline), without_bookkeeping(stored))
    return [each for each in found if not (_is_default(*each) or _is_same_amount(*each))]


def without_bookkeeping(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without what the API server and kubectl write about it, and without its status."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVER}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != _LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    rest = {key: value for key, value in document.items() if key not in ("metadata", "status")}
    return {**rest, "metadata": metadata}


def applied(document: Mapping[str, Any]) -> str | None:
    """Return Muster's memory of its changes, as the document's annotation has it."""
    found: str | None = (document["metadata"].get("annotations") or {}).get(_APPLIED)
    return found


def explained(told: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the changes of an explanation: operation, place, value after, rule.

    The memory of them is left out, for where it goes depends on the annotation that kubectl writes.
    """
    return _changes(told, "path")


def recorded(record: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the changes of an audit record in the same form; what the record has as a hash is equal to anything."""
    return [(op, place, _known(value), rule) for op, place, value, rule in _changes(record, "field")]


def _known(value: Any) -> Any:
    if isinstance(value, str):
        return ANY if "sha256:" in value else value
    if isinstance(value, Mapping):
        return {key: _known(each) for key, each in value.items()}
    return [_known(each) for each in value] if isinstance(value, list) else value


def _changes(told: Mapping[str, Any], place: str) -> list[tuple[Any, ...]]:
    found = [(each["op"], *_place(each[place], each.get("after")), each["rule"]) for each in told["changes"]]
    return [each for each in found if each[-1] != "core/applied"]


def _place(path: str, after: Any) -> tuple[str, Any]:
    """Return where a value went; webhooks in Go add an empty `resources`, and then a first member goes into it."""
    if path.endswith(".resources") and isinstance(after, Mapping) and len(after) == 1:
        ((member, value),) = after.items()
        return f"{path}.{member}", value
    return path, after


def _compared(offline: Any, stored: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(offline, Mapping) and isinstance(stored, Mapping):
        for key in sorted({*offline, *stored}):
            yield from _compared(offline.get(key, ...), stored.get(key, ...), f"{path}.{key}" if path else key)
    elif isinstance(offline, list) and isinstance(stored, list):
        for index in range(max(len(offline), len(stored))):
            left, right = (each[index] if index < len(each) else ... for each in (offline, stored))
            yield from _compared(left, right, f"{path}[{index}]")
    elif offline != stored:
        yield path, offline, stored


def _is_default(path: str, offline: Any, stored: Any) -> bool:
    if {} in (offline, stored):
        return ... in (offline, stored)  # webhooks in Go add and drop empty objects
    place = re.sub(r"\[\d+\]", "[*]", path)
    return offline is ... and (place == _STAMP or (place in _DEFAULTS and _DEFAULTS[place] == stored))


def _is_same_amount(path: str, offline: Any, stored: Any) -> bool:
    """Whether both are one quantity: a webhook in Go writes 1 as "1"."""
    in_resources = ".limits." in path or ".requests." in path
    return in_resources and isinstance(offline, int) and str(offline) == stored
