"""Streams: the documents of one text, one after the other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from muster.webhook.kubeyaml.builders import Builder, Repeat, YamlError

__all__ = ["START", "Parsed", "load", "load_all", "load_each"]

# libyaml compares each directive with all others, which takes hours for a file of nothing else.
_DIRECTIVE = re.compile(r"^\ufeff?%TAG|[\n\r\x85\u2028\u2029]%TAG")
_MOST_DIRECTIVES = 100
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Any: libyaml's class, or the slow one with its interface
START = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)  # YAML 1.2, 9.1.2: no text of a document has such a line


class Parsed(NamedTuple):
    """One document: its value, its number and its place.

    Attributes:
        value: of JSON's types; None for an empty document.
        number: in the text, from 1.
        line: its first one, from 1.
        start: offset in the text; for YAML of the beginning of that line.
        end: offset behind the document.
        repeats: members that are written twice, where they are not an error.
    """

    value: Any
    number: int
    line: int
    start: int = 0
    end: int = 0
    repeats: tuple[Repeat, ...] = ()


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
    return _documents(text, _Before(), aliases=aliases, most=most)


def load_each(text: str) -> Iterator[Parsed | YamlError]:
    """Read the documents of a text; one that cannot be read is its error, and the next one is read all the same.

    A member that is written twice is no error: the last one counts.

    As kubectl does, each document is then read on its own, from one line `---` to the next.

    Args:
        text: what to read; the caller has limited its length, and ends when it has seen too many errors.
    """
    before = _Before()
    try:
        for parsed in _documents(text, before, once=False):
            before = _Before(parsed.number, 0, parsed.end)
            yield parsed
    except YamlError:
        yield from _apart(text, before)


class _Before(NamedTuple):
    """What stands before the text that is read: documents, lines and characters."""

    documents: int = 0
    lines: int = 0
    characters: int = 0


def _apart(text: str, before: _Before) -> Iterator[Parsed | YamlError]:
    """Read each document behind `before` on its own; the work grows with the length of the text, however many fail."""
    number, start = before.documents, before.characters
    lines = text.count("\n", 0, start)
    for end in _ends(text, start):
        part = text[start:end]
        try:
            for parsed in _documents(part, _Before(number, lines, start), once=False):
                number = parsed.number
                yield parsed
        except YamlError as error:
            number = error.document
            yield error
        start, lines = end, lines + part.count("\n")


def _ends(text: str, start: int) -> Iterator[int]:
    yield from (each.start() for each in START.finditer(text, start) if each.start() > start)
    yield len(text)


def _documents(
    text: str, before: _Before, *, aliases: bool = True, most: float = math.inf, once: bool = True
) -> Iterator[Parsed]:
    number = before.documents
    if len(directives := _DIRECTIVE.findall(text)) > _MOST_DIRECTIVES:
        raise YamlError(f"has {len(directives)} %TAG directives; remove them, as JSON has no tags", number + 1)
    try:
        events = yaml.parse(text, Loader=_Loader)
        for event in events:
            if type(event) is yaml.DocumentStartEvent:
                number += 1
                start: Any = event.start_mark  # Any: never None where libyaml made the event
                repeats: list[Repeat] = []
                builder = Builder(number, aliases=aliases, most=most, repeats=None if once else repeats)
                value = builder.build(events)
                began = before.characters + start.index - start.column
                line, end = before.lines + start.line + 1, before.characters + builder.end
                yield Parsed(value, number, line, began, end, tuple(repeats))
    except YamlError as error:
        error.line += before.lines
        raise
    except yaml.YAMLError as error:
        raise _explained(error, text, max(number, before.documents + 1), before.lines) from error


def _explained(error: yaml.YAMLError, text: str, number: int, lines: int) -> YamlError:
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)  # Any: of C or of Python
    if isinstance(error, yaml.MarkedYAMLError) and mark is not None:
        context: Any = error.context_mark  # Any: as above
        began = f"{error.context} (line {lines + context.line + 1}), " if error.context and context else ""
        message = f"{began}{error.problem}"
        return YamlError(f"is not YAML: {message} (column {mark.column + 1})", number, lines + mark.line + 1)
    line = 0
    if isinstance(error, yaml.reader.ReaderError):
        line = lines + text.encode(errors="replace").count(b"\n", 0, error.position) + 1
    return YamlError(f"is not YAML: {' '.join(str(error).split())}", number, line)
