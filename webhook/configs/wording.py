"""Wording: what is wrong in a configuration file, in the words of this project and not of the library that found it."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pydantic
from pydantic_core import ErrorDetails

__all__ = ["TEXTS", "explained"]

_LONGEST = 60  # characters of a value that are quoted
_KEY = "[key]"  # by which pydantic says that a fault is in the key itself

TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "bool_parsing": lambda _: "must be true or false",
    "bool_type": lambda _: "must be true or false",
    "dict_type": lambda _: "must be an object with keys",
    "enum": lambda of: f"must be {of['expected']}",
    "float_parsing": lambda _: "must be a number",
    "float_type": lambda _: "must be a number",
    "finite_number": lambda _: "must be a finite number",
    "greater_than": lambda of: f"must be more than {_number(of['gt'])}",
    "greater_than_equal": lambda of: f"must be at least {_number(of['ge'])}",
    "int_from_float": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "int_parsing_size": lambda _: "must be a smaller number",
    "int_type": lambda _: "must be a whole number",
    "less_than": lambda of: f"must be less than {_number(of['lt'])}",
    "less_than_equal": lambda of: f"must be at most {_number(of['le'])}",
    "list_type": lambda _: "must be a list",
    "literal_error": lambda of: f"must be {of['expected']}",
    "missing": lambda _: "is missing; add it",
    "model_type": lambda _: "must be an object with keys",
    "path_type": lambda _: "must be the path of a file, as text",
    "string_pattern_mismatch": lambda of: f"must match {of['pattern']}",
    "string_too_long": lambda of: f"must have at most {of['max_length']} characters",
    "string_too_short": lambda of: (
        "must not be empty" if of["min_length"] == 1 else f"must have at least {of['min_length']} characters"
    ),
    "string_type": lambda _: "must be text; quote it",
    "too_long": lambda of: f"must have at most {of['max_length']} entries",
    "too_short": lambda of: (
        "must not be empty" if of["min_length"] == 1 else f"must have at least {of['min_length']} entries"
    ),
    "tuple_type": lambda _: "must be a list",
}
"""What is said for each kind of fault; what is not here has a text of our own already (`value_error`)."""


def explained(source: str, model: type[pydantic.BaseModel], error: ErrorDetails) -> str:
    """Return one line `FILE: KEY: VALUE: what is wrong and what to write`.

    Args:
        source: name of the file.
        model: of the whole file.
        error: as pydantic reports it.
    """
    location, kind, value = error["loc"], error["type"], error["input"]
    field = _path(location)
    if kind == "extra_forbidden":
        return f"{source}: {field}: is not a key of the configuration; {_meant(model, location)}"
    said = TEXTS.get(kind)
    text = said(error.get("ctx", {})) if said else _first_lower(error["msg"].removeprefix("Value error, "))
    # Of a key that is missing, and of an object whose members contradict each other, there is no value to show.
    silent = kind == "missing" or (kind == "value_error" and isinstance(value, dict))
    return f"{source}: {f'{field}: ' if field else ''}{'' if silent else f'{_short(value)}: '}{text}"


def _path(location: Sequence[int | str]) -> str:
    text = ""
    for part in location:
        if part != _KEY:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)


def _first_lower(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"


def _meant(model: type[pydantic.BaseModel], location: Sequence[int | str]) -> str:
    near = difflib.get_close_matches(str(location[-1])[:100], list(_beside(model, location)), 1)
    return f"did you mean {near[0]}?" if near else "check its spelling and place"


def _beside(model: type[pydantic.BaseModel], location: Sequence[int | str]) -> Iterator[str]:
    """Yield the keys that are known where a key is; names of entries and numbers of a list lead no deeper."""
    models = [model]
    for part in location[:-1]:
        under = [field for each in models for name, field in _fields(each) if name == part]
        models = [inner for field in under for inner in _models(field.annotation)] if under else models
    for each in models:
        yield from (name for name, _ in _fields(each))


def _fields(model: type[pydantic.BaseModel]) -> Iterator[tuple[str, Any]]:
    yield from ((field.alias or name, field) for name, field in model.model_fields.items())


def _models(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for each in typing.get_args(annotation):
        yield from _models(each)
