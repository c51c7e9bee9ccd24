"""JSON in files, read as strictly as YAML (no NaN, nothing that UTF-8 cannot encode), and JSON as it is shown.

`json` is stricter where YAML's parser would be lenient, and faster. Several documents may follow each other, as
`kubectl` and JSON Lines write them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muster.webhook.kubeyaml.composer import MAX_DEPTH, Parsed, YamlError
from muster.webhook.kubeyaml.emitters import shown

__all__ = ["dump", "is_json", "load_all"]

_BLANK = " \t\r\n"


def dump(value: Any, *, indent: int | None = 2) -> str:
    """Return a value as JSON text, characters that are not seen as escapes; with indent None on one line, no spaces."""
    separators = None if indent else (",", ":")
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    return shown(text, lambda character: json.dumps(character)[1:-1])


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
    twice: list[bool] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            twice.append(True)
        return made

    decoder = json.JSONDecoder(object_pairs_hook=members, parse_constant=_constant)
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
        yield Parsed(value, number, line, (text, position, end), bool(twice))
        twice.clear()
        position = _skip(text, end)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANK:
        position += 1
    return position


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is a number that JSON does not have; quote it if it is text")


def _check(value: Any, written: str) -> None:
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        if depth > MAX_DEPTH:
            raise RecursionError
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
    if "\\u" in written:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("holds half of a surrogate pair (\\ud800 to \\udfff), which is not a character") from error
