"""Composer: the documents of a text and the place of each member, in one reading.

The text is not trusted. Depth is limited, so that the stack does not overflow; repetition by aliases is limited, so
that memory suffices. PyYAML's own `compose` takes as long and refuses an anchor that is set twice, which kubectl takes,
so values are made from libyaml's events; of an event its mark is kept.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from muster.webhook.kubeyaml import scalars

__all__ = ["MAX_DEPTH", "START", "Parsed", "Repeat", "Spot", "YamlError", "load", "load_all", "load_each"]

MAX_DEPTH = 128
"""Levels of nesting; the deepest Kubernetes objects, CRDs, have about 60."""
START = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
"""The beginning of a document (YAML 1.2, 9.1.2): no text of a document has such a line."""

_MOST_ALIASED = 100_000  # values that all aliases of one document together may repeat
_MOST_REPEATS = 50  # members of one document that are written twice and reported
_LONGEST = 300  # characters of a message
# libyaml compares each directive with all others, which takes hours for a file of nothing else.
_DIRECTIVE = re.compile(r"^\ufeff?%TAG|[\n\r\x85\u2028\u2029]%TAG")
_MOST_DIRECTIVES = 100
_MERGE = scalars.TAG + "merge"
_STRINGS = frozenset({None, "!", scalars.TAG + "str", scalars.TAG + "timestamp"})
_HEAD = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*")  # comments before the first document
_PAIR = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..")  # a character of JSON that libyaml cannot read


class YamlError(ValueError):
    """A text that is not YAML, or that JSON cannot express.

    Attributes:
        document: number of the document in the text, from 1.
        line: from 1; 0 when it is not known.
    """

    def __init__(self, message: str, document: int, line: int = 0) -> None:
        super().__init__(message)
        self.document = document
        self.line = line


class Repeat(NamedTuple):
    """A member that one object has twice.

    Attributes:
        path: of the member, from the root of its document.
        differs: whether the values differ, so that the first one is lost.
        merged: whether the last one comes from a merge (`<<`) behind the member.
    """

    path: tuple[str | int, ...]
    differs: bool
    merged: bool = False


class Spot(NamedTuple):
    """A place in a file: line and column from 1, the column in characters."""

    line: int
    column: int


class Parsed:
    """One document.

    Args:
        value: of JSON's types; None for an empty document.
        number: in the text, from 1.
        line: its first one, from 1.
        passage: the text in which it stands, and its offsets there; that of YAML begins where a line does.
        read: what read it, or for JSON, whose decoder knows no places, whether a member is written twice.
    """

    def __init__(
        self, value: Any, number: int, line: int, passage: tuple[str, int, int], read: _Composer | bool
    ) -> None:
        self.value = value
        self.number = number
        self.line = line
        self.around, self.start, self.end = passage
        self.read = read

    @property
    def text(self) -> str:
        """The YAML of the document, with its comments and without the line that begins it; "" for JSON."""
        if isinstance(self.read, bool):
            return ""
        head = _HEAD.match(self.around)
        start = 0 if head is not None and head.end() >= self.start else self.start
        text = self.around[start : self.end].removeprefix("---\n")
        return text if text.endswith("\n") else f"{text}\n"

    @property
    def repeats(self) -> list[Repeat]:
        """Members that are written twice, where they are not an error."""
        return self._composer.repeats if self.read and self._composer is not None else []

    def find(self, path: Iterable[str | int]) -> Spot:
        """Return where a member's key, or an entry of a list, begins; for a missing one, what is around it.

        Args:
            path: members and indexes from the document's root.
        """
        return self._composer.find(path) if self._composer is not None else Spot(self.line, 1)

    @functools.cached_property
    def _composer(self) -> _Composer | None:
        """JSON is read as YAML for its places, which libyaml can but for some escapes and very long keys."""
        if isinstance(self.read, _Composer):
            return self.read
        column = self.start - (self.around.rfind("\n", 0, self.start) + 1)
        text = " " * column + _PAIR.sub("?" * 12, self.around[self.start : self.end])
        try:
            composer = next(_documents(text, _LENIENT, self.number - 1, self.line - 1)).read
        except YamlError:
            return None
        return composer if isinstance(composer, _Composer) else None


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
    return _documents(text, _Limits(aliases, most))


def load_each(text: str) -> Iterator[Parsed | YamlError]:
    """Read the documents of a text; one that cannot be read is its error, and the next one is read all the same.

    A member that is written twice is no error: the last one counts. As kubectl does, each document behind the first
    fault is read on its own, from one line `---` to the next; so the work grows with the length of the text.

    Args:
        text: what to read; the caller has limited its length, and ends when it has seen too many errors.
    """
    number = start = 0
    try:
        for parsed in _documents(text, _LENIENT):
            number, start = parsed.number, parsed.end
            yield parsed
    except YamlError:
        yield from _apart(text, number, start)


def _apart(text: str, number: int, start: int) -> Iterator[Parsed | YamlError]:
    lines = text.count("\n", 0, start)
    ends = [each.start() for each in START.finditer(text, start) if each.start() > start]
    for end in (*ends, len(text)):
        part = text[start:end]
        try:
            for parsed in _documents(part, _LENIENT, number, lines):
                number = parsed.number
                yield parsed
        except YamlError as error:
            number = error.document
            yield error
        start, lines = end, lines + part.count("\n")


class _Limits(NamedTuple):
    """What a document may have: aliases, how many values and keys, and members that are written twice."""

    aliases: bool = True
    most: float = math.inf
    repeats: bool = False


_LENIENT = _Limits(repeats=True)


def _documents(text: str, limits: _Limits, number: int = 0, lines: int = 0) -> Iterator[Parsed]:
    """Read a text before which there are `number` documents and `lines` lines."""
    first = number + 1
    if len(directives := _DIRECTIVE.findall(text)) > _MOST_DIRECTIVES:
        raise YamlError(f"has {len(directives)} %TAG directives; remove them, as JSON has no tags", first)
    try:
        loader: Any = yaml.CSafeLoader(text)  # Any: events have no common type of what is in them
        while (event := loader.get_event()) is not None:
            if type(event) is yaml.DocumentStartEvent:
                number += 1
                mark: Any = event.start_mark  # Any: never None where libyaml made the event
                composer = _Composer(loader.get_event, limits, number, lines)
                passage = (text, mark.index - mark.column, loader.get_event().end_mark.index)
                yield Parsed(composer.value, number, lines + mark.line + 1, passage, composer)
    except yaml.YAMLError as error:
        raise _explained(error, text, max(number, first), lines) from error


def _explained(error: yaml.YAMLError, text: str, number: int, lines: int) -> YamlError:
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)  # Any: libyaml's own class
    if isinstance(error, yaml.MarkedYAMLError) and mark is not None:
        context: Any = error.context_mark  # Any: as above
        began = f"{error.context} (line {lines + context.line + 1}), " if error.context and context else ""
        message = f"{began}{error.problem}"
        return YamlError(f"is not YAML: {message} (column {mark.column + 1})", number, lines + mark.line + 1)
    line = 0
    if isinstance(error, yaml.reader.ReaderError):
        line = lines + text.encode(errors="replace").count(b"\n", 0, error.position) + 1
    return YamlError(f"is not YAML: {' '.join(str(error).split())}", number, line)


class _Composer:
    """Makes the value of one document from libyaml's events, the first of them behind the beginning of the document.

    Raises:
        YamlError: there is a key or a number that JSON does not have; or it is too deep or too large.
    """

    def __init__(self, next_event: Callable[[], Any], limits: _Limits, number: int, lines: int) -> None:
        self._next = next_event
        self._limits = limits
        self._number = number
        self._lines = lines
        self._path: list[str | int | None] = []  # None inside of a merge, which has no path of its own
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = self._aliased = 0
        # By id of each object and list that was read, which `value` keeps: the marks of its keys or entries.
        self._marks: dict[int, Any] = {}
        self.repeats: list[Repeat] = []
        event = next_event()
        self._mark = event.start_mark
        self.value = self._compose(event)

    def find(self, path: Iterable[str | int]) -> Spot:
        value, mark = self.value, self._mark
        for part in path:
            is_entry = isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value)
            if not is_entry and not (isinstance(value, dict) and part in value):
                break
            mark, value = self._marks[id(value)][part], value[part]
        return Spot(self._lines + mark.line + 1, mark.column + 1)

    def _compose(self, event: Any) -> Any:
        kind = type(event)
        if kind is yaml.AliasEvent:
            return self._alias(event)
        self._size += 1
        if self._size > self._limits.most:
            raise self._error(event, f"holds more than {self._limits.most} values")
        before = self._size
        if kind is yaml.ScalarEvent:
            value = self._scalar(event)
        elif len(self._path) == MAX_DEPTH:
            raise self._error(event, f"is nested more than {MAX_DEPTH} levels deep")
        else:
            value = self._object() if kind is yaml.MappingStartEvent else self._list()
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size - before + 1)
        return value

    def _alias(self, event: Any) -> Any:
        if not self._limits.aliases:
            raise self._error(event, f"uses the alias *{event.anchor}; aliases are not allowed here")
        if event.anchor not in self._anchors:
            raise self._error(event, f"the anchor of *{event.anchor} must be complete before it")
        value, size = self._anchors[event.anchor]
        self._aliased += size
        self._size += size
        if self._aliased > _MOST_ALIASED:
            raise self._error(event, f"the aliases repeat more than {_MOST_ALIASED} values; write them out")
        return value

    def _list(self) -> list[Any]:
        entries: list[Any] = []
        marks = self._marks[id(entries)] = []
        self._path.append(0)
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            self._path[-1] = len(entries)
            marks.append(event.start_mark)
            entries.append(self._compose(event))
        self._path.pop()
        return entries

    def _object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        marks = self._marks[id(members)] = {}
        merged: set[str] = set()  # members that only a merge has given so far
        self._path.append(None)
        while type(event := self._next()) is not yaml.MappingEndEvent:
            if type(event) is yaml.ScalarEvent and event.value == "<<" and (event.implicit[0] or event.tag == _MERGE):
                self._path[-1] = None
                self._merge(members, merged)
                continue
            key = self._path[-1] = self._key(event)
            is_repeated = key in members and key not in merged
            if is_repeated and not self._limits.repeats:
                raise self._error(event, f"the key {key!r} is written twice in one object; remove one")
            value = self._compose(self._next())
            if is_repeated:
                self._note(key, differs=members[key] != value)
            merged.discard(key)
            members[key], marks[key] = value, event.start_mark
        self._path.pop()
        return members

    def _key(self, event: Any) -> str:
        if type(event) is yaml.ScalarEvent or type(event) is yaml.AliasEvent:
            key = self._compose(event)
            if not isinstance(key, (dict, list)) and key is not None:
                return scalars.key(key)
            if key is None:
                raise self._error(event, "null cannot be a key; quote it")
        raise self._error(event, "an object or a list cannot be a key; quote it if it is text")

    def _merge(self, members: dict[str, Any], merged: set[str]) -> None:
        """Put merged members in, at their place: kubectl lets them replace the members before (goyaml.v2 `merge`)."""
        event = self._next()
        value = self._compose(event)
        given = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in given):
            raise self._error(event, "<< can only merge objects")
        marks = self._marks[id(members)]
        found = {key: (each[key], self._marks[id(each)][key]) for each in reversed(given) for key in each}
        for key, (value, mark) in found.items():
            if key not in members:
                merged.add(key)
            elif key not in merged and members[key] != value:
                self._note(key, differs=True, merged=True)
            members[key] = value
            if key in merged:
                marks[key] = mark

    def _note(self, key: str, *, differs: bool, merged: bool = False) -> None:
        around = [each for each in self._path[:-1] if each is not None]
        if len(around) == len(self._path) - 1 and len(self.repeats) < _MOST_REPEATS:
            self.repeats.append(Repeat((*around, key), differs, merged))

    def _scalar(self, event: Any) -> Any:
        if event.implicit[0]:
            value = scalars.plain(event.value)
        elif event.tag in _STRINGS:
            return event.value
        else:
            try:
                value = scalars.tagged(event.tag, event.value)
            except ValueError as error:
                raise self._error(event, f"{event.value[:40]!r} cannot be read: {error}") from error
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(event, f"{event.value} is a number that JSON does not have; quote it if it is text")
        return value

    def _error(self, event: Any, message: str) -> YamlError:
        if len(message) > _LONGEST:  # a key or a tag may be as long as the text
            message = f"{message[: _LONGEST // 2]}…{message[-_LONGEST // 2 :]}"
        return YamlError(message, self._number, self._lines + event.start_mark.line + 1)
