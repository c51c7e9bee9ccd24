"""Streams: the documents of one text, one after the other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from webhook.kubeyaml.builders import Builder, YamlError

__all__ = ["Parsed", "load", "load_all"]

# libyaml compares each directive with all others, which takes hours for a file of nothing else.
_DIRECTIVE = re.compile(r"^\ufeff?%TAG|[\n\r\x85\u2028\u2029]%TAG")
_MOST_DIRECTIVES = 100
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Any: libyaml's class, or the slow one with its interface


class Parsed(NamedTuple):
    """One document: its value, its number and its place.

    Attributes:
        value: of JSON's types; None for an empty document.
        number: in the text, from 1.
        line: its first one, from 1.
        start: offset in the text; for YAML of the beginning of that line.
        end: offset behind the document.
    """

    value: Any
    number: int
    line: int
    start: int = 0
    end: int = 0


def load(text: str, *, aliases: bool = True, most: float = math.inf) -> Any:
    """Return the value of a text with one document, None for an empty text.

    Args:
        text: what to read.
        aliases: whether aliases are allowed.
        most: maximum number of values, including keys.

    Raises:
        YamlError: as `load_all`, or the text holds a second document.
    """
    value = None
    for parsed in load_all(text, aliases=aliases, most=most):
        if parsed.number > 1:
            raise YamlError("a second document starts here; only one is allowed", parsed.number, parsed.line)
        value = parsed.value
    return value


def load_all(text: str, *, aliases: bool = True, most: float = math.inf) -> Iterator[Parsed]:
    """Read the documents of a text.

    Args:
        text: what to read; the caller has limited its length.
        aliases: whether aliases are allowed.
        most: maximum number of values of each document, including keys.

    Raises:
        YamlError: the text is not YAML, or JSON cannot express it; earlier documents have been returned.
    """
    if len(directives := _DIRECTIVE.findall(text)) > _MOST_DIRECTIVES:
        raise YamlError(f"has {len(directives)} %TAG directives; remove them, as JSON has no tags", 1)
    number = 0
    try:
        events = yaml.parse(text, Loader=_Loader)
        for event in events:
            if type(event) is yaml.DocumentStartEvent:
                number += 1
                start: Any = event.start_mark  # Any: never None where libyaml made the event
                builder = Builder(number, aliases=aliases, most=most)
                value = builder.build(events)
                yield Parsed(value, number, start.line + 1, start.index - start.column, builder.end)
    except yaml.YAMLError as error:
        raise _explained(error, text, max(number, 1)) from error


def _explained(error: yaml.YAMLError, text: str, number: int) -> YamlError:
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)  # Any: of C or of Python
    if isinstance(error, yaml.MarkedYAMLError) and mark is not None:
        began = (
            f"{error.context} (line {error.context_mark.line + 1}), " if error.context and error.context_mark else ""
        )
        message = f"{began}{error.problem}"
        return YamlError(f"is not YAML: {message} (column {mark.column + 1})", number, mark.line + 1)
    line = 0
    if isinstance(error, yaml.reader.ReaderError):
        line = text.encode(errors="replace").count(b"\n", 0, error.position) + 1
    return YamlError(f"is not YAML: {' '.join(str(error).split())}", number, line)
