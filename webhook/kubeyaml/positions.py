"""Positions: where the fields of a document are written.

The values are read without places, because few documents have anything wrong. Whoever asks for the place of a field has
the document's text read once more, which costs as much as the first time, and only for that document.
"""

from __future__ import annotations

import bisect
import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from muster.webhook.kubeyaml import scalars

__all__ = ["Passage", "Spot"]

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Any: libyaml's class, or the slow one with its interface
_HEAD = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*")  # comments before the first document
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class Spot(NamedTuple):
    """A place in a file: line and column from 1, the column in characters."""

    line: int
    column: int


class _Node:
    """A value and where it begins; a member also has the place of its key, which may be in another object (`<<`)."""

    __slots__ = ("entries", "members", "spot")

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.members: dict[str, tuple[Spot, _Node]] = {}
        self.entries: list[_Node] = []


class Passage:
    """The text of one document, in which places can be found. The text has been read as a document before.

    Args:
        text: of the whole file, which is shared with its other documents.
        start: offset of the document, where a line begins.
        end: offset behind the document.
        line: number of its first line, from 1.
        is_json: whether it was read as JSON.
    """

    def __init__(self, text: str, start: int, end: int, line: int, *, is_json: bool = False) -> None:
        self._text = text
        self._range = (start, end)
        self._line = line
        self._is_json = is_json

    @property
    def text(self) -> str:
        """The YAML of the document, with its comments and without the line that begins it; "" for JSON."""
        if self._is_json:
            return ""
        start, end = self._range
        head = _HEAD.match(self._text)
        start = 0 if head is not None and head.end() >= start else start
        text = self._text[start:end].removeprefix("---\n")
        return text if text.endswith("\n") else f"{text}\n"

    def find(self, path: Iterable[str | int]) -> Spot:
        """Return where a member's key, or an entry of a list, begins; for a missing one, what is around it.

        Args:
            path: members and indexes from the document's root.
        """
        node, spot = self._root, self._root.spot
        for part in path:
            if isinstance(part, str) and part in node.members:
                spot, node = node.members[part]
            elif isinstance(part, int) and 0 <= part < len(node.entries):
                node = node.entries[part]
                spot = node.spot
            else:
                break
        return spot

    @functools.cached_property
    def _root(self) -> _Node:
        start, end = self._range
        text = self._text[start:end]
        if self._is_json:
            return _build(_json_events(text, self._line, start - (self._text.rfind("\n", 0, start) + 1)))
        return _build(_yaml_events(text, self._line))


class _Event(NamedTuple):
    """What the text holds next: `{`, `[`, `)` for the end of either, `.` for a scalar, `*` for an alias."""

    kind: str
    spot: Spot
    text: str = ""
    anchor: str | None = None
    is_plain: bool = False


def _yaml_events(text: str, line: int) -> Iterator[_Event]:
    events: Iterator[Any] = yaml.parse(text, Loader=_Loader)  # Any: of libyaml, or of Python
    for event in events:
        kind = type(event)
        spot = Spot(event.start_mark.line + line, event.start_mark.column + 1)
        if kind is yaml.ScalarEvent:
            plain = bool(event.implicit[0])
            word = scalars.plain(event.value) if plain else event.value
            yield _Event(".", spot, "" if word is None else scalars.key(word), event.anchor, plain)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            yield _Event("{" if kind is yaml.MappingStartEvent else "[", spot, anchor=event.anchor)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            yield _Event(")", spot)
        elif kind is yaml.AliasEvent:
            yield _Event("*", spot, anchor=event.anchor)
        elif kind is yaml.DocumentEndEvent:
            return


def _json_events(text: str, line: int, column: int) -> Iterator[_Event]:
    """Yield the events of a text that begins at a line and behind `column` characters of it."""
    starts = [-column, *(found.end() for found in re.finditer("\n", text))]
    for found in _TOKEN.finditer(text):
        word = found[0]
        row = bisect.bisect_right(starts, found.start()) - 1
        spot = Spot(line + row, found.start() - starts[row] + 1)
        if word in "{[":
            yield _Event(word, spot)
        elif word in "}]":
            yield _Event(")", spot)
        elif word not in ",:":
            yield _Event(".", spot, json.loads(word) if word[0] == '"' else word)


class _Frame:
    """A value that is not complete yet; `key` is None while a merge (`<<`) waits for its value."""

    __slots__ = ("anchor", "is_mapping", "key", "merged", "node", "wants_key")

    def __init__(self, event: _Event) -> None:
        self.node = _Node(event.spot)
        self.anchor = event.anchor
        self.is_mapping = self.wants_key = event.kind == "{"
        self.key: tuple[str, Spot] | None = None
        self.merged: list[_Node] = []


def _build(events: Iterable[_Event]) -> _Node:
    """Return the root of a document; aliases share what they name, so that nothing grows."""
    frames: list[_Frame] = []
    anchors: dict[str | None, tuple[_Node, str]] = {}
    root = _Node(Spot(1, 1))
    for event in events:
        if event.kind in "{[":
            frames.append(_Frame(event))
            continue
        if event.kind == ")":
            frame = frames.pop()
            for merged in frame.merged:
                for key, member in merged.members.items():
                    frame.node.members.setdefault(key, member)
            node, text, anchor = frame.node, "", frame.anchor
        elif event.kind == "*":
            (node, text), anchor = anchors.get(event.anchor, (_Node(event.spot), "")), None
        else:
            node, text, anchor = _Node(event.spot), event.text, event.anchor
        if anchor is not None:
            anchors[anchor] = (node, text)
        if not frames:
            root = node
        elif frames[-1].wants_key:
            frames[-1].key = None if text == "<<" and event.is_plain else (text, event.spot)
            frames[-1].wants_key = False
        else:
            _put(frames[-1], node)
    return root


def _put(frame: _Frame, node: _Node) -> None:
    if not frame.is_mapping:
        frame.node.entries.append(node)
        return
    frame.wants_key = True
    if frame.key is None:
        frame.merged += node.entries or [node]
    else:
        key, spot = frame.key
        frame.node.members[key] = (spot, node)
