"""Checks a value against a declared shape and lists each field that does not fit.

A file may be edited by hand, come from another version, or not be an audit log. So readers check each line before they
use its fields. This module walks the declarations in `records`, so that checking and typing cannot differ. Undeclared
fields are accepted, because later versions of v1 may add some.
"""

from __future__ import annotations

import functools
import re
import reprlib
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, NotRequired, TypedDict, Union, cast

from muster.webhook.audit import records

__all__ = ["check", "is_link", "is_sealed", "misfit"]

_LONGEST_QUOTE = 60
_NAMES: dict[object, str] = {str: "a string", int: "an integer", bool: "true or false", type(None): "null"}


def check(value: object, shape: object = records.Sealed) -> list[str]:
    """Return one sentence for each field of `value` (parsed JSON) that does not fit `shape`; empty when it fits."""
    return list(_problems(value, shape, ""))


def misfit(value: object, shape: object = records.Sealed) -> str | None:
    """Return the first sentence of `check`, without looking for others; None when the value fits."""
    return next(_problems(value, shape, ""), None)


def is_sealed(value: object) -> typing.TypeGuard[records.Sealed]:
    """Whether `value` is a complete record of this schema, with its place in the chain."""
    return misfit(value) is None


def is_link(value: object) -> typing.TypeGuard[records.Link]:
    """Whether `value` has a place in a chain; its other fields are not checked."""
    return misfit(value, records.Link) is None


def _problems(value: object, shape: object, path: str) -> Iterator[str]:
    origin, args = _taken_apart(shape)
    if origin is None:
        if not _is_plain(value, shape):
            yield _mismatch(path, value, _NAMES.get(shape, str(shape)))
    elif origin is TypedDict:
        yield from _fields(value, cast("type", shape), path)
    elif origin is Literal:
        if value not in args:
            yield _mismatch(path, value, f"one of {', '.join(args)}")
    elif origin in (Union, types.UnionType):
        yield from _choices(value, args, path)
    elif origin is list:
        yield from _items(value, args[0], path)
    else:
        yield from _pattern(value, args[1], path)


def _fields(value: object, shape: type, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _mismatch(path, value, "an object")
        return
    for name, (hint, required) in _hints(shape).items():
        here = f"{path}.{name}" if path else name
        if name in value:
            yield from _problems(value[name], hint, here)
        elif required:
            what = shape.__name__.removeprefix("Recorded").lower()  # `finding`, the name in the log
            yield f"{here}: is missing; every {what} has it"


def _choices(value: object, shapes: tuple[object, ...], path: str) -> Iterator[str]:
    tried = [list(_problems(value, shape, path)) for shape in shapes]
    if all(tried):
        yield from tried[0]


def _items(value: object, shape: object, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield _mismatch(path, value, "a list")
        return
    for index, item in enumerate(value):
        yield from _problems(item, shape, f"{path}[{index}]")


def _pattern(value: object, pattern: str, path: str) -> Iterator[str]:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        yield _mismatch(path, value, f"a string that matches {pattern}")


def _is_plain(value: object, shape: object) -> bool:
    if shape is object:
        return True
    if shape is int and isinstance(value, bool):
        return False
    return isinstance(value, cast("type", shape))


# Any: a shape is made of shapes, of the strings of a Literal, or of a pattern.
@functools.cache
def _taken_apart(shape: object) -> tuple[object, tuple[Any, ...]]:
    """Split a shape into its origin (None for a plain type) and its arguments."""
    if typing.is_typeddict(shape):
        return TypedDict, ()
    origin = typing.get_origin(shape)
    return (origin, typing.get_args(shape)) if origin else (None, ())


@functools.cache
def _hints(shape: type) -> dict[str, tuple[object, bool]]:
    hints = typing.get_type_hints(shape, include_extras=True)
    return {name: _required(hint) for name, hint in hints.items()}


def _required(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) is NotRequired:
        return typing.get_args(hint)[0], False
    return hint, True


def _mismatch(path: str, value: object, wanted: str) -> str:
    quote = repr(value[: _LONGEST_QUOTE + 1]) if isinstance(value, str) else _QUOTES.repr(value)
    if len(quote) > _LONGEST_QUOTE:
        quote = quote[:_LONGEST_QUOTE] + "..."
    return f"{path or 'line'}: {quote} is not {wanted}"


def _quotes() -> reprlib.Repr:
    """Return a writer of values that looks at no more of one than is quoted."""
    quotes = reprlib.Repr()
    quotes.maxlevel = 4
    quotes.maxdict = quotes.maxlist = 8
    quotes.maxstring = quotes.maxother = 3 * _LONGEST_QUOTE
    return quotes


_QUOTES = _quotes()
