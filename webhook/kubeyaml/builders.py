"""Builders: build the value of one document from its events, without recursion and within limits.

The text is not trusted. Depth is limited, so that the stack does not overflow; repetition by aliases is limited, so
that memory suffices. Of a member that is written twice the last value counts, as for kubectl, and its path is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from muster.webhook.kubeyaml import scalars

__all__ = ["MAX_ALIASED", "MAX_DEPTH", "MOST_REPEATS", "Builder", "Repeat", "YamlError"]

MAX_DEPTH = 128
"""Levels of nesting; the deepest Kubernetes objects, CRDs, have about 60."""
MAX_ALIASED = 100_000
"""Values that all aliases of one document together may repeat."""
MOST_REPEATS = 50
"""Members of one document that are written twice, of which anybody is told."""

_LONGEST = 300  # characters of a message
_STRINGS = frozenset({None, "!", scalars.TAG + "str", scalars.TAG + "timestamp"})
_MERGE = scalars.TAG + "merge"


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


class _Frame:
    """A mapping or a list that is not complete yet; `key` is None while a merge (`<<`) waits for its value."""

    __slots__ = ("anchor", "begin", "earlier", "entries", "key", "members", "merged", "wants_key")

    def __init__(self, event: Any, begin: int) -> None:
        self.members: dict[str, Any] | None = {} if type(event) is yaml.MappingStartEvent else None
        self.entries: list[Any] = []
        self.anchor = event.anchor
        self.begin = begin
        self.wants_key = self.members is not None
        self.key: str | None = None
        self.merged: set[str] = set()  # members that only a merge has given so far
        self.earlier: list[Any] = []  # the value that the next one replaces


class Builder:
    """Builds one document.

    Args:
        number: of the document, for errors.
        aliases: whether aliases are allowed.
        most: maximum number of values, including keys.
        repeats: takes the members that are written twice; None to make them an error.

    Attributes:
        end: offset in the text behind the document that was built.
    """

    def __init__(
        self, number: int, *, aliases: bool = True, most: float = math.inf, repeats: list[Repeat] | None = None
    ) -> None:
        self._number = number
        self._aliases = aliases
        self._most = most
        self._repeats = repeats
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = 0
        self._aliased = 0
        self._root: Any = None
        self.end = 0

    def build(self, events: Iterator[Any]) -> Any:
        """Consume libyaml's events up to the end of the document and return its value, in JSON's types.

        Raises:
            YamlError: there is a repeated key that nobody takes, or a key or number that JSON does not have; or it is
                too deep or too large.
        """
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentEndEvent:
                self.end = event.end_mark.index
                break
            else:
                self._open(event)
        return self._root

    def _open(self, event: Any) -> None:
        if len(self._frames) == MAX_DEPTH:
            raise self._error(event, f"is nested more than {MAX_DEPTH} levels deep")
        if self._frames and self._frames[-1].wants_key:
            raise self._error(event, "an object or a list cannot be a key; quote it if it is text")
        self._count(event)
        self._frames.append(_Frame(event, self._size))

    def _close(self, event: Any) -> None:
        frame = self._frames.pop()
        value: Any = frame.entries if frame.members is None else frame.members
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (value, self._size - frame.begin + 1)
        self._put(value, event)

    def _alias(self, event: Any) -> None:
        if not self._aliases:
            raise self._error(event, f"uses the alias *{event.anchor}; aliases are not allowed here")
        if event.anchor not in self._anchors:
            raise self._error(event, f"the anchor of *{event.anchor} must be complete before it")
        value, size = self._anchors[event.anchor]
        self._aliased += size
        self._size += size
        if self._aliased > MAX_ALIASED:
            raise self._error(event, f"the aliases repeat more than {MAX_ALIASED} values; write them out")
        self._take(value, event)

    def _scalar(self, event: Any) -> None:
        value = self._read(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._count(event)
        is_merge = value == "<<" and (event.implicit[0] or event.tag == _MERGE)
        if is_merge and self._frames and self._frames[-1].wants_key:
            self._frames[-1].key, self._frames[-1].wants_key = None, False
        else:
            self._take(value, event)

    def _count(self, event: Any) -> None:
        self._size += 1
        if self._size > self._most:
            raise self._error(event, f"holds more than {self._most} values")

    def _read(self, event: Any) -> Any:
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

    def _take(self, value: Any, event: Any) -> None:
        if self._frames and self._frames[-1].wants_key:
            self._start_member(self._frames[-1], value, event)
        else:
            self._put(value, event)

    def _start_member(self, frame: _Frame, key: Any, event: Any) -> None:
        if isinstance(key, (dict, list)) or key is None:
            raise self._error(event, f"{'null' if key is None else 'an object or a list'} cannot be a key; quote it")
        frame.key, frame.wants_key = scalars.key(key), False
        if frame.members is not None and frame.key in frame.members:
            self._repeat(frame, frame.key, event)

    def _repeat(self, frame: _Frame, key: str, event: Any) -> None:
        if key in frame.merged:  # which is what merges are for
            frame.merged.discard(key)
        elif self._repeats is None:
            raise self._error(event, f"the key {key!r} is written twice in one object; remove one")
        elif frame.members is not None:
            frame.earlier.append(frame.members[key])

    def _put(self, value: Any, event: Any) -> None:
        if not self._frames:
            self._root = value
            return
        frame = self._frames[-1]
        if frame.members is None:
            frame.entries.append(value)
            return
        frame.wants_key = True
        if frame.key is not None:
            if frame.earlier:
                self._note(frame.key, frame.earlier.pop() != value)
            frame.members[frame.key] = value
            return
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in merged):
            raise self._error(event, "<< can only merge objects")
        self._merge(frame, frame.members, {key: each[key] for each in reversed(merged) for key in each})

    def _merge(self, frame: _Frame, members: dict[str, Any], merged: dict[str, Any]) -> None:
        """Put merged members in, at their place: kubectl lets them replace the members before (goyaml.v2 `merge`)."""
        for key, value in merged.items():
            if key not in members:
                frame.merged.add(key)
            elif key not in frame.merged and members[key] != value:
                self._note(key, differs=True, merged=True)
            members[key] = value

    def _note(self, key: str, differs: bool, *, merged: bool = False) -> None:  # said by its name
        if self._repeats is not None:
            around = [len(each.entries) if each.members is None else each.key for each in self._frames[:-1]]
            if None not in around and len(self._repeats) < MOST_REPEATS:  # what a merge holds has no path of its own
                self._repeats.append(Repeat((*(each for each in around if each is not None), key), differs, merged))

    def _error(self, event: Any, message: str) -> YamlError:
        if len(message) > _LONGEST:  # a key or a tag may be as long as the text
            message = f"{message[: _LONGEST // 2]}…{message[-_LONGEST // 2 :]}"
        return YamlError(message, self._number, event.start_mark.line + 1)
