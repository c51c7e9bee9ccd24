"""Merges: a TrainJob's `runtimePatches` applied to its runtime's template, as Trainer's strategic merge does it.

Objects merge member by member, keyed lists entry by entry, and any other list is replaced (apimachinery
`strategicpatch`). New entries are added at the end here; Trainer's order of new volumes or mounts may differ, which has
no effect on the pod.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["merge", "upsert"]

_KEYS = {
    **dict.fromkeys(("replicatedJobs", "containers", "initContainers", "env", "volumes"), "name"),
    **dict.fromkeys(("imagePullSecrets", "schedulingGates", "resourceClaims"), "name"),
    "volumeMounts": "mountPath",
}


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `patch` applied; a null removes a member. Neither is changed; the result shares parts."""
    merged = dict(base)
    for member, value in patch.items():
        present = merged.get(member)
        if value is None:
            merged.pop(member, None)
        elif isinstance(value, dict) and isinstance(present, dict):
            merged[member] = merge(present, value)
        elif isinstance(value, list) and isinstance(present, list) and member in _KEYS:
            merged[member] = _join(present, value, _KEYS[member], merge)
        else:
            merged[member] = value
    return merged


def upsert(entries: list[Any], added: list[Any], key: str) -> list[Any]:
    """Return a keyed list with entries replaced where they stood, or added at the end."""
    return _join(entries, added, key, lambda _, entry: entry)


def _join(entries: list[Any], added: list[Any], key: str, meet: Callable[[Any, Any], Any]) -> list[Any]:
    """Return a keyed list in which `meet` joined two entries with the same key."""
    joined = list(entries)
    places: dict[Any, int] = {}
    for index, each in enumerate(joined):
        places.setdefault(_held(each.get(key)), index)
    for entry in added:
        place = places.setdefault(_held(entry.get(key)), len(joined))
        if place == len(joined):
            joined.append(entry)
        else:
            joined[place] = meet(joined[place], entry)
    return joined


def _held(value: Any) -> Any:
    """Return what stands for the value of a key in an index; lists and objects are not names, and are not hashed."""
    return (str, json.dumps(value, sort_keys=True)) if isinstance(value, (dict, list)) else value
