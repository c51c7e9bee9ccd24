"""Decoding: a document as a typed value of its kind, and every member that has another type than Kubernetes defines.

The API server has checked an admitted object against its CRD only after the mutating webhooks, and nobody has checked a
file. Null counts as missing, as in Kubernetes. Members that Muster does not read may be anything, and so may the labels
of a runtime, which is of use all the same.

Members of documents whose shape nobody checked: what has another type than the reader wants counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from muster.strategies.documents import meanings, model, paths
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.paths import Path

__all__ = ["Decoded", "check", "convert", "decode", "items", "mapping", "mappings", "member", "read", "sequence"]

_Kind = TypeVar("_Kind")
_MOST = 50  # each misfit costs one more pass over the document
_FAULT = r"Expected `(\w+)((?: \| \w+)*)`, got `(\w+)`(?: - at `(.*)`)?"
_STEP = r"\.(\w+)|\[(\d+|\.\.\.)\]"
_WORDS = {
    "amount": "a number or a text",
    "str": "a string",
    "int": "an integer",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
_EMPTY: Mapping[str, Any] = {"str": "", "int": 0, "bool": False, "object": {}, "array": []}
_KINDS = {"str": str, "int": int, "bool": bool, "array": list}
_TYPES = {str: "str", int: "int", float: "float", bool: "bool", dict: "object", list: "array"}
_RUNTIMES = frozenset({"TrainingRuntime", "ClusterTrainingRuntime", "RuntimeSnapshot"})


class Decoded(NamedTuple):
    """What a document is as a value of its kind.

    Attributes:
        value: the value; members of a wrong type have their defaults. None for a kind that Muster does not read, and
            for a document that is not an object.
        misfits: an error for each member of a wrong type, the first 50.
    """

    value: Any
    misfits: list[Finding]


def check(document: Mapping[str, Any], kind: str = "") -> list[Finding]:
    """Return the `misfits` of `decode`."""
    return decode(document, kind).misfits


def decode(document: Mapping[str, Any], kind: str = "") -> Decoded:
    """Return a document as a value.

    Args:
        document: an object of the API, or what somebody wrote in the place of one.
        kind: the kind that the caller expects, where that is known; else the `kind` of the document.
    """
    wanted = model.KINDS.get(kind or str(document.get("kind")))
    if wanted is None:
        return Decoded(None, [])
    try:
        return Decoded(msgspec.convert(document, wanted), [])
    except msgspec.ValidationError:
        return _repaired(document, wanted, kind or str(document.get("kind")))


def read(document: Mapping[str, Any], kind: type[_Kind]) -> _Kind:
    """Return an object, or a part of one, as a value of a type of the model; `check` has reported what does not fit."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError:
        return convert(document, kind)[0]


def convert(document: Mapping[str, Any], kind: type[_Kind]) -> tuple[_Kind, list[Finding]]:
    """Return an object as a value of any type, and the `misfits` of `decode`."""
    try:
        return msgspec.convert(document, kind), []
    except msgspec.ValidationError:
        found = _repaired(document, kind, "")
        return kind() if found.value is None else found.value, found.misfits


def _repaired(document: Mapping[str, Any], wanted: type, kind: str) -> Decoded:
    """Decode a document of which some members are null or misfits, without these."""
    left: Any = _without_nulls({"": document}).get("")
    misfits: list[Finding] = []
    for _ in range(_MOST):
        try:
            return Decoded(msgspec.convert(left, wanted), misfits)
        except msgspec.ValidationError as fault:
            found = re.fullmatch(_FAULT, str(fault), flags=re.DOTALL)
            if found is None:
                raise
            expected, told = found[1], found[4] or "$"
            path, in_map = _place(left, told, found[3]), told.endswith("[...]")
            if kind not in _RUNTIMES or not in_map:
                misfits.append(_misfit(document, path, "amount" if "str" in found[2] else expected))
            if not path:
                return Decoded(None, misfits)
            left = _without(left, path, _EMPTY[expected], drops=in_map)
    return Decoded(None, misfits)


def _place(document: Any, told: str, got: str) -> Path:
    """Return the place that msgspec tells; of a map it tells no member, and the first of the type `got` is meant."""
    path: list[str | int] = []
    node = document
    for member, index in re.findall(_STEP, told):
        step = member or index
        if step == "...":
            step = next(key for key, value in node.items() if _TYPES[type(value)] == got)
        path.append(int(step) if isinstance(node, list) else step)
        node = node[path[-1]]
    return tuple(path)


def _misfit(document: Mapping[str, Any], path: Path, expected: str) -> Finding:
    """Return an error about a member; an object or a list is named and not quoted, for it may hold a secret."""
    field, value, wanted = paths.field(document, path), paths.lookup(document, path), _WORDS[expected]
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return error(field, None, f"is {kind}, and must be {wanted}", rule="core/shape")
    cure = meanings.cure(value, _KINDS.get(expected, object), path[-1] if path else "")
    return error(field, value, f"must be {wanted}{cure}", rule="core/shape")


def _without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without null members; documents may be nested deeper than functions may."""
    found = {key: value for key, value in document.items() if value is not None}
    left: list[Any] = [found]
    while left:
        node = left.pop()
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(value, dict):
                node[key] = {inner: each for inner, each in value.items() if each is not None}
                left.append(node[key])
            elif isinstance(value, list):
                node[key] = value.copy()
                left.append(node[key])
    return found


def _without(node: Any, path: Path, empty: Any, *, drops: bool) -> Any:
    """Return a copy with an empty value at `path`, so that entries behind it keep their places, or without it."""
    copy = node.copy()
    if path[1:]:
        copy[path[0]] = _without(node[path[0]], path[1:], empty, drops=drops)
    elif drops:
        del copy[path[0]]
    else:
        copy[path[0]] = empty
    return copy


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """Return a list; an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def member(document: Any, *names: str) -> Mapping[str, Any]:
    """Return the object inside others; an empty one where it, or one around it, is missing or something else."""
    found = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def items(document: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of an object."""
    return mappings(document.get(name)) if isinstance(document, dict) else []
