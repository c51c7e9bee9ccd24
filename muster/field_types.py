"""Types of fields: what the fields of a trainer hold beside what their annotations allow, all of it at once.

Python checks no annotation, and a wrong type would end somewhere inside the making of the job. One reader of
annotations is for the trainers of this package and for those of others.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union, cast

from muster.strategies.documents.findings import Finding, beginning, error

__all__ = ["EXAMPLE", "misfits"]

EXAMPLE = "example"
"""In the metadata of a field: a value of it, for the message about one that does not fit."""

_LONGEST = 120
_RULE = "core/shape"
_CALLED = {str: "a string", int: "an integer", float: "a number", bool: "True or False", type(None): "None"}


def misfits(owner: Any, around: str = "") -> Iterator[Finding]:  # Any: a dataclass of any author
    """Yield an error for each field of a dataclass that has another type than its annotation.

    Args:
        owner: the dataclass; a field whose annotation cannot be resolved may be anything.
        around: of a dataclass in a field, the name of that field with a dot.
    """
    yield from _members(owner, type(owner), around)


def _members(owner: Any, declared: type, around: str) -> Iterator[Finding]:
    hints = _hints(declared)
    for each in dataclasses.fields(declared):
        if each.name in hints:
            found = _judged(getattr(owner, each.name), hints[each.name], f"{around}{each.name}")
            example = each.metadata.get(EXAMPLE)
            shown = "" if example is None else f"; write it like {example!r}"
            yield from (
                dataclasses.replace(one, message=one.message + shown) if "; " not in one.message else one
                for one in found
            )


def _hints(cls: type) -> Mapping[str, Any]:
    """Return the annotations of a class, or of its nearest base, when names in it exist for type checkers alone."""
    for base in cls.__mro__:
        try:
            return typing.get_type_hints(base)
        except NameError:
            continue
    return {}


def _judged(value: object, hint: Any, place: str) -> Iterator[Finding]:
    """Yield what does not fit: the value itself, or what is inside of it."""
    options = _options(hint)
    if any(_is_of(value, each) for each in options):
        inner = [list(_inside(value, each, place)) for each in options if _is_of(value, each)]
        yield from min(inner, key=len)
    else:
        shown = f"a {type(value).__name__}" if isinstance(value, Mapping | Sequence | set) else _shown(value)
        shown = _shown(value) if isinstance(value, str) else shown
        yield error(place, value, f"{_wanted(options)}, and not {shown}{_cure(value, options)}", rule=_RULE)


def _options(hint: Any) -> Sequence[Any]:
    is_union = typing.get_origin(hint) in (Union, types.UnionType)
    return [inner for each in typing.get_args(hint) for inner in _options(each)] if is_union else [hint]


def _is_of(value: object, hint: Any) -> bool:
    """Whether a value has a type, whatever is inside of it."""
    kind = typing.get_origin(hint) or hint
    if kind is Literal:
        return any(type(value) is type(each) and value == each for each in typing.get_args(hint))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(kind, type) or kind is Any or getattr(kind, "_is_protocol", False):
        return True  # such as a TypeVar
    if dataclasses.is_dataclass(kind):  # kubeflow's SDK has classes with the same fields
        wanted = {each.name for each in dataclasses.fields(kind)}
        return isinstance(value, kind) or _is_like(value, wanted)
    return isinstance(value, kind) and not (issubclass(kind, Sequence) and kind is not str and isinstance(value, str))


def _is_like(value: object, wanted: set[str]) -> bool:
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_instance and wanted <= {each.name for each in dataclasses.fields(cast("Any", value))}


def _inside(value: Any, hint: Any, place: str) -> Iterator[Finding]:
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if dataclasses.is_dataclass(kind):
        yield from _members(value, cast("type", kind), f"{place}.")
    elif isinstance(kind, type) and issubclass(kind, Mapping) and len(inner) == 2:
        for key, each in value.items():
            yield from _judged(key, inner[0], f"{place} key {_shown(key)}")
            yield from _judged(each, inner[1], f"{place}[{_shown(key)}]")
    elif isinstance(kind, type) and issubclass(kind, Sequence) and kind is not str and inner:
        for index, each in enumerate(value):
            yield from _judged(each, inner[0], f"{place}[{index}]")


def _wanted(options: Sequence[Any]) -> str:
    words = [each for option in options if option is not type(None) for each in _words(option)]
    return "must be " + " or ".join(filter(None, [", ".join(dict.fromkeys(words[:-1])), *words[-1:]]))


def _words(hint: Any) -> Iterator[str]:
    """Yield how types are called in a message, each value of a Literal by itself."""
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Literal:
        yield from map(repr, inner)
    elif dataclasses.is_dataclass(kind):
        yield f"a {_name(kind)}"
    elif not isinstance(kind, type):
        yield str(kind)
    elif issubclass(kind, Enum):
        yield "a member of an Enum"
    elif issubclass(kind, Mapping):
        yield "a dictionary"
    elif kind is not str and issubclass(kind, Sequence):
        plain = [each for each in inner if each in _CALLED]
        yield f"a list of {_CALLED[plain[0]].partition(' ')[2]}s" if plain else "a list"
    else:
        yield _CALLED.get(kind, f"a {kind.__name__}")


def _shown(value: object) -> str:
    return beginning(repr(value), _LONGEST)


def _name(cls: Any) -> str:
    return str(cls.__name__)


def _cure(value: object, options: Sequence[Any]) -> str:
    """Return how to write what is evidently meant, "" where nothing is."""
    for hint in options:
        kind = typing.get_origin(hint) or hint
        meant = None if isinstance(value, float) and int in options else _meant(value, kind)
        if meant is not None and _is_of(meant, hint) and not any(_inside(meant, hint, "")):
            return f"; write {meant!r}"
        if dataclasses.is_dataclass(kind):
            return f"; write {_name(kind)}({_arguments(value, dataclasses.fields(kind))})"
    return ""


def _arguments(value: object, known: Sequence[dataclasses.Field[Any]]) -> str:
    """Return what stands between the parentheses of a dataclass that is meant by a value of another type."""
    names = [each.name for each in known]
    if isinstance(value, Mapping) and len(value) < 5:
        return ", ".join(f"{key}={each!r}" for key, each in value.items())
    if value in names:
        return f"{value}=True"
    return f"{names[0]}=..."


def _meant(value: object, kind: Any) -> object:
    """Return a value in another type; None where it has no evident meaning there."""
    if kind is str and type(value) in (int, float):
        return str(value)
    if isinstance(kind, type) and issubclass(kind, Sequence) and isinstance(value, str):
        return [each.strip() for each in value.split(",")] if kind is not str else None
    if not isinstance(value, str):
        return None
    if kind is bool:
        return {"true": True, "false": False}.get(value.lower())
    try:
        found = int(value) if kind is int or kind is Literal else float(value) if kind is float else None
    except ValueError:
        return None
    return found
