"""Merges: what a TrainJob patches, applied to its runtime's template as Trainer's strategic merge does it.

Objects merge member by member, keyed lists entry by entry, and any other list is replaced (apimachinery
`strategicpatch`). New entries are added at the end here; Trainer's order of new volumes or mounts may differ, which has
no effect on the pod.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from muster.strategies.documents.paths import Path

__all__ = ["Note", "merge", "upsert"]

Note = Callable[[Path, Path], None]
"""Is told what the patch wrote: its place in the merged object, and its place in the patch."""

_GIVEN = frozenset({"replicatedJobs", "containers", "initContainers"})
"""Lists that get no new entries: Trainer refuses a patch of a job or a container that the runtime lacks."""

_KEYS = {
    **dict.fromkeys(("replicatedJobs", "containers", "initContainers", "env", "volumes"), "name"),
    **dict.fromkeys(("imagePullSecrets", "schedulingGates", "resourceClaims"), "name"),
    "volumeMounts": "mountPath",
}


def _forget(_at: Path, _of: Path) -> None:
    pass


def merge(
    base: Mapping[str, Any], patch: Mapping[str, Any], note: Note = _forget, at: Path = (), of: Path = ()
) -> dict[str, Any]:
    """Return `base` with `patch` applied; a null removes a member. Neither is changed; the result shares parts.

    Args:
        base: the object.
        patch: what is applied.
        note: is told what the patch wrote.
        at: the place of `base`, for `note`.
        of: the place of `patch`, for `note`.
    """
    merged = dict(base)
    for member, value in patch.items():
        present, place, origin = merged.get(member), (*at, member), (*of, member)
        if value is None:
            merged.pop(member, None)
        elif isinstance(value, dict) and isinstance(present, dict):
            merged[member] = merge(present, value, note, place, origin)
        elif isinstance(value, list) and isinstance(present, list) and member in _KEYS:
            merged[member] = _merge_lists(present, value, member, note, (place, origin))
        elif member not in _GIVEN:
            merged[member] = value
            note(place, origin)
    return merged


def _merge_lists(
    present: list[Any], patched: list[Any], member: str, note: Note, places: tuple[Path, Path]
) -> list[Any]:
    at, of = places

    def meet(entry: Any, other: Any, index: int, number: int) -> Any:
        if not isinstance(entry, dict) or not isinstance(other, dict):
            note((*at, index), (*of, number))
            return other
        return merge(entry, other, note, (*at, index), (*of, number))

    return _join(present, patched, _KEYS[member], meet, grows=member not in _GIVEN)


def upsert(entries: list[Any], added: list[Any], key: str) -> list[Any]:
    """Return a keyed list with entries replaced where they stood, or added at the end."""
    return _join(entries, added, key, lambda _, entry, __, ___: entry)


def _join(
    entries: list[Any], added: list[Any], key: str, meet: Callable[[Any, Any, int, int], Any], *, grows: bool = True
) -> list[Any]:
    """Return a keyed list in which `meet` joined an entry, or None, with one of its key; it gets both indices too."""
    joined = list(entries)
    places: dict[Any, int] = {}
    for index, each in enumerate(joined):
        places.setdefault(_key_of(each, key), index)
    for number, entry in enumerate(added):
        place = places.get(_key_of(entry, key), len(joined))
        if place < len(joined):
            joined[place] = meet(joined[place], entry, place, number)
        elif grows:
            places[_key_of(entry, key)] = place
            joined.append(meet(None, entry, place, number))
    return joined


def _key_of(entry: Any, key: str) -> Any:
    """Return what stands for the key of an entry in an index; lists and objects are not names, and are not hashed."""
    value = entry.get(key) if isinstance(entry, dict) else None
    return (str, json.dumps(value, sort_keys=True)) if isinstance(value, (dict, list)) else value
