"""Reads JSON from files as strictly as YAML: no NaN, nothing that UTF-8 cannot encode.

`json` is stricter where YAML's parser would be lenient (and reads what libyaml cannot: surrogate pairs, tabs). Several
documents may follow each other, as `kubectl` and JSON Lines write them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from muster.webhook.kubeyaml import glyphs
from muster.webhook.kubeyaml.builders import MAX_DEPTH, MOST_REPEATS, Repeat, YamlError
from muster.webhook.kubeyaml.streams import Parsed

__all__ = ["dump", "is_json", "load_all"]

_BLANK = " \t\r\n"


def dump(value: Any, *, indent: int | None = 2) -> str:
    """Return a value as JSON text, characters that are not seen as escapes; with indent None on one line, no spaces."""
    separators = None if indent else (",", ":")
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    return glyphs.shown(text, lambda character: json.dumps(character)[1:-1])


def is_json(text: str) -> bool:
    """Whether the first document of a text is JSON and not a similar flow mapping of YAML."""
    try:
        json.JSONDecoder().raw_decode(text, _skip(text, 0))
    except (ValueError, RecursionError):
        return False
    return True


def load_all(text: str) -> Iterator[Parsed]:
    """Read JSON documents that follow each other; of a key that is written twice the last value counts.

    Raises:
        YamlError: it is not JSON, is too deep, or has a number or text that JSON does not have.
    """
    twice: list[_Twice] = []
    decoder = json.JSONDecoder(object_pairs_hook=partial(_object, twice), parse_constant=_constant)
    number, position = 0, _skip(text, 0)
    while position < len(text):
        number += 1
        line = text.count("\n", 0, position) + 1
        try:
            value, end = decoder.raw_decode(text, position)
            _check(value, text[position:end])
        except json.JSONDecodeError as error:
            message = f"is not JSON: {error.msg} (column {error.colno})"
            raise YamlError(message, number, error.lineno) from error
        except RecursionError as error:
            raise YamlError(f"is nested more than {MAX_DEPTH} levels deep", number, line) from error
        except ValueError as error:
            raise YamlError(str(error), number, line) from error
        yield Parsed(value, number, line, position, end, tuple(_repeats(value, twice)) if twice else ())
        twice.clear()
        position = _skip(text, end)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANK:
        position += 1
    return position


_Twice = tuple[dict[str, Any], dict[str, bool]]
"""An object, and its keys that are written twice; True where the values differ."""


def _object(twice: list[_Twice], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    keys: dict[str, bool] = {}
    for key, value in pairs:
        if key in made:
            keys[key] = keys.get(key, False) or made[key] != value
        made[key] = value
    if keys and len(twice) < MOST_REPEATS:
        twice.append((made, keys))
    return made


def _repeats(value: Any, twice: list[_Twice]) -> Iterator[Repeat]:
    """Yield where the keys are; an object that a later value has replaced is nowhere."""
    wanted = {id(made): keys for made, keys in twice}
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    while waiting:
        each, path = waiting.pop()
        for key, differs in list(wanted.get(id(each), {}).items())[:MOST_REPEATS]:
            yield Repeat((*path, key), differs)
        if isinstance(each, dict | list):
            inner = each.items() if isinstance(each, dict) else enumerate(each)
            waiting += [(item, (*path, key)) for key, item in inner if isinstance(item, dict | list)]


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is a number that JSON does not have; quote it if it is text")


def _check(value: Any, written: str) -> None:
    level, depth = [value], 0
    while level := [child for each in level if isinstance(each, (dict, list)) for child in _children(each)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise RecursionError
    if "\\u" in written:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("holds half of a surrogate pair (\\ud800 to \\udfff), which is not a character") from error


def _children(node: dict[str, Any] | list[Any]) -> Iterator[Any]:
    return iter(node.values() if isinstance(node, dict) else node)
