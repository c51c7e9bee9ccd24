"""Places inside a raw document, in three spellings.

* `Path`: the tuple of members and indexes that code follows.
* a JSON pointer (RFC 6901): what a JSON Patch carries.
* a field path, `spec.trainer.env[MASTER_ADDR].value`: what people read, and what survives a reordered list, because
  entries of Kubernetes' keyed lists are named by their merge key and not by their index. Where the key is ambiguous
  (it is missing, an earlier entry has it too, or it reads like an index of the same list) the index is used, so that
  `locate` finds in a document exactly what `field` named in it. A backslash escapes `]` and itself inside brackets.

Merge keys are those of the CRDs of Trainer and JobSet (x-kubernetes-list-map-keys).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

__all__ = [
    "ABSENT",
    "KEYS",
    "Absent",
    "Path",
    "changed",
    "enclosing",
    "field",
    "locate",
    "lookup",
    "nearest",
    "pointer",
    "spell",
    "spelled",
    "unit",
    "written",
]

Path = tuple[str | int, ...]


class Absent(Enum):
    """The type of `ABSENT`: no value at this place, which is not the same as null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT

_MERGE_KEYS = {"runtimePatches": "manager", "volumeMounts": "mountPath", "ports": "containerPort"}
_GET = {key: operator.itemgetter(key) for key in ("name", *_MERGE_KEYS.values())}
KEYS = frozenset(_GET)
"""Members that may name the entry of a list that they are in."""
_TEXTS = {str}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ATOMIC = frozenset({"args", "command", "envFrom", "nodeSelector", "tolerations", _REQUIRED})
_LEAF_LISTS = frozenset(
    {"claims", "env", "imagePullSecrets", "ports", "resourceClaims", "schedulingGates", "volumeMounts", "volumes"}
)
_INSIDE = _ATOMIC | _LEAF_LISTS
_COMMON = frozenset({"spec", "template", "metadata", "replicatedJobs", "containers", "env", "annotations"})
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_SEGMENT = re.compile(r"\.?([A-Za-z0-9_-]+)|\[((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_INDEXED = 32  # entries from which on a list is indexed
_REMEMBERED = 64  # lists whose index is kept
_LONGEST_KEY = 512  # characters; names have at most 253, and each change and finding tells its path
_LONGEST_INDEX = 9  # digits; no list is longer, and int() of a million digits takes long


def pointer(path: Path) -> str:
    """Return the RFC 6901 pointer of `path`; `~` and `/` are escaped."""
    plain = "/".join(map(str, path))
    if "~" not in plain and plain.count("/") == len(path) - 1:
        return f"/{plain}"
    return "".join(f"/{_escape(part)}" for part in path)


def _escape(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def lookup(document: Any, path: Path) -> Any:
    """Return the value at `path`, or `ABSENT` when any step is missing."""
    node = document
    for part in path:
        if isinstance(node, dict):
            if part not in node:
                return ABSENT
        elif isinstance(part, str) or not isinstance(node, list) or not 0 <= part < len(node):
            return ABSENT
        node = node[part]
    return node


def field(document: Any, path: Path) -> str:
    """Return the field path of `path`; list entries are named by merge key where `document` has one."""
    return written(spelled(document, path))


def written(steps: Iterable[str]) -> str:
    """Return the field path that steps make which `spelled` returned."""
    return "".join(steps).lstrip(".")


def spelled(document: Any, path: Path) -> list[str]:
    """Return the steps of a field path, each with the dot or the brackets that it is written with."""
    out: list[str] = []
    node, member = document, ""
    for part in path:
        out.append(spell(node, member, part))
        if isinstance(part, str):
            node, member = (node.get(part) if isinstance(node, dict) else None), part
        else:
            node = node[part] if isinstance(node, list) and 0 <= part < len(node) else None
    return out


def spell(node: Any, member: str, part: str | int) -> str:
    """Return one step of a field path with its dot or its brackets.

    Args:
        node: the object or the list in which it is.
        member: the last member on the way to `node`.
        part: a member or an index of `node`, which need not have it.
    """
    if isinstance(part, str):
        return f".{part}" if part in _COMMON or _PLAIN.fullmatch(part) else f"[{_quoted(part)}]"
    return f"[{_entry_step(node if isinstance(node, list) else [], member, part)}]"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("]", "\\]")


def _entry_step(entries: list[Any], member: str, index: int) -> str | int:
    entry = entries[index] if 0 <= index < len(entries) else None
    key = entry.get(_MERGE_KEYS.get(member, "name")) if isinstance(entry, dict) else None
    if not isinstance(key, str | int):  # an object may hold anything
        return index
    key = str(key)
    if len(key) > _LONGEST_KEY:
        return index
    if (index and _first(entries, member, key) != index) or (key.isdecimal() and _is_index(key, entries)):
        return index
    return _quoted(key) if "]" in key or "\\" in key else key


def _first(entries: list[Any], member: str, key: str) -> int | None:
    merge_key = _MERGE_KEYS.get(member, "name")
    if len(entries) < _INDEXED:
        keys = _keys(entries, merge_key)
        return keys.index(key) if key in keys else None
    index = _indexes.get((id(entries), merge_key))
    if index is None:
        while len(_indexes) >= _REMEMBERED:
            _indexes.pop(next(iter(_indexes), (0, "")), None)  # empty only if another thread was first
        index = _indexes[id(entries), merge_key] = _Index(entries, merge_key)
    return index.first(key)


def _keys(entries: list[Any], merge_key: str) -> list[str | None]:
    try:
        keys = list(map(_GET[merge_key], entries))
    except (KeyError, TypeError):  # an entry without a key, or none that could have one
        keys = []
    return keys if set(map(type, keys)) == _TEXTS else [_key_of(entry, merge_key) for entry in entries]


def _key_of(entry: Any, merge_key: str) -> str | None:
    found = entry.get(merge_key) if type(entry) is dict else None
    return found if type(found) is str or found is None else str(found)


class _Index:
    """The first place of each key of a long list, whose entries are read once, as far as somebody has asked."""

    def __init__(self, entries: list[Any], merge_key: str) -> None:
        self._entries = entries  # kept alive, so that its id stays its own
        self._merge_key = merge_key
        self._read: list[str | None] = []
        self._places: dict[str | None, int] = {}

    def first(self, key: str) -> int | None:
        place = self._places.get(key)
        if place is not None:
            return place
        for place in range(len(self._read), len(self._entries)):
            found = _key_of(self._entries[place], self._merge_key)
            self._read.append(found)
            self._places.setdefault(found, place)
            if found == key:
                return place
        return None

    def changed(self, place: int, *, shifted: bool) -> None:
        if shifted or _key_of(self._entries[place], self._merge_key) not in self._read[place : place + 1]:
            for key in self._read[place:]:
                if self._places.get(key, -1) >= place:
                    del self._places[key]
            del self._read[place:]


_indexes: dict[tuple[int, str], _Index] = {}


def changed(entries: list[Any], place: int, *, shifted: bool) -> None:
    """Read keys of a list again, after an entry was added, removed, replaced or renamed.

    Args:
        entries: the list, as it is now.
        place: the index of the entry.
        shifted: whether the entries behind it have other indexes now.
    """
    for merge_key in _GET:
        if index := _indexes.get((id(entries), merge_key)):
            index.changed(place, shifted=shifted)


def _is_index(text: str, entries: list[Any]) -> bool:
    return len(text) <= _LONGEST_INDEX and text.isdecimal() and str(int(text)) == text and int(text) < len(entries)


def locate(document: Any, field_path: str) -> Path | None:
    """Return the place that `field_path` names in `document`, None when it is missing or the text is not a field path.

    The last step may be missing from an existing object: the path is then where it would be added.
    """
    steps = _steps(field_path)
    if steps is None:
        return None
    path: list[str | int] = []
    node, member = document, ""
    for position, step in enumerate(steps):
        if isinstance(node, list):
            index = _entry_index(node, member, step)
            if index is None:
                return None
            path.append(index)
            node = node[index]
        elif isinstance(node, dict) and (step in node or position == len(steps) - 1):
            path.append(step)
            node, member = node.get(step), step
        else:
            return None
    return tuple(path)


def nearest(document: Any, field_path: str) -> Path:
    """Return the place of the longest start of `field_path` that is in `document`; () when nothing of it is there."""
    path: list[str | int] = []
    node, member = document, ""
    for step in _read(field_path)[0]:
        part = _entry_index(node, member, step) if isinstance(node, list) else step
        if part is None or lookup(node, (part,)) is ABSENT:
            break
        path.append(part)
        node, member = node[part], step if isinstance(node, dict) else ""
    return tuple(path)


def _steps(field_path: str) -> list[str] | None:
    steps, is_whole = _read(field_path)
    return steps if is_whole else None


def _read(field_path: str) -> tuple[list[str], bool]:
    """Return the steps, and whether they are all of it; one by one, since a search would need quadratic time."""
    steps: list[str] = []
    position = 0
    while segment := _SEGMENT.match(field_path, position):
        plain, keyed = segment.groups()
        steps.append(plain or (_ESCAPED.sub(r"\1", keyed) if "\\" in keyed else keyed))
        position = segment.end()
    return steps, position == len(field_path)


def _entry_index(entries: list[Any], member: str, step: str) -> int | None:
    if _is_index(step, entries):
        return int(step)
    return _first(entries, member, step)


def unit(path: Path) -> Path:
    """Return the smallest place that Kubernetes treats as one value around `path`.

    `command`, `args` and required affinities are atomic; an entry of `env`, `volumes` and the like is one value. A
    field that Muster replaced is remembered and restored by this unit, never by a part of it.
    """
    return enclosing(path) or path


def enclosing(path: Path) -> Path | None:
    """Return the place of the one value that `path` is or is inside of, None where it is in none."""
    if _INSIDE.isdisjoint(path):
        return None
    for position, part in enumerate(path):
        if part in _ATOMIC:
            return path[: position + 1]
        if part in _LEAF_LISTS and position + 1 < len(path) and isinstance(path[position + 1], int):
            return path[: position + 2]
    return None
