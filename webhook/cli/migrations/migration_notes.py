"""What the conversion of one document says about its members, by the table `members.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from muster.strategies.documents import decoding
from muster.webhook.cli.migrations.old_kinds import Document

__all__ = ["Migrated", "Note", "Notes", "Row", "rows"]

_EMPTY: tuple[object, ...] = (None, "", {}, [])
_UNKNOWN = "muster migrate does not know this member; compare it with the API of its operator"


class Note(Struct, frozen=True):
    """One sentence about a member.

    Attributes:
        fate: `changed`: its meaning changed; `lost`: a TrainJob has no equivalent.
        member: the field of the source document.
        text: the sentence.
        to: where the comment is written, as in `members.toml`; "" for the head of the TrainJob.
    """

    fate: Literal["changed", "lost"]
    member: str
    text: str
    to: str = ""


class Migrated(Struct):
    """The documents that stand for one source document, a runtime before its TrainJob."""

    documents: list[Document]
    notes: list[Note] = field(default_factory=list)

    @property
    def lost(self) -> list[Note]:
        """What has no equivalent."""
        return [each for each in self.notes if each.fate == "lost"]


class Row(Struct, frozen=True):
    """A row of `members.toml`, whose head says what each member means."""

    fate: Literal["moved", "changed", "lost", "written", "code"]
    to: str = ""
    text: str = ""
    cases: Mapping[str, Row] = {}


_Table: TypeAlias = Mapping[tuple[str, ...], Row]


class Notes:
    """Collects the notes about one document."""

    def __init__(self) -> None:
        self.found: list[Note] = []

    def changed(self, member: str, to: str, text: str) -> None:
        """Note that the meaning of a member changed."""
        self._add(Note("changed", member, text, to))

    def lost(self, member: str, text: str) -> None:
        """Note that a member has no equivalent."""
        self._add(Note("lost", member, text))

    def judge(self, document: Mapping[str, object], kind: str) -> None:
        """Note what the table says about each member that the document has."""
        table = rows(kind)
        for member, value in _members(document, (), table):
            row = _row(member, table)
            if row is None:
                self.lost(".".join(member), _UNKNOWN)
                continue
            case = row.cases.get(str(value), row)
            if case.fate in ("changed", "lost") and value is not False and value not in _EMPTY:
                self._add(Note(case.fate, ".".join(member), case.text, case.to))

    def _add(self, note: Note) -> None:
        if note not in self.found:
            self.found.append(note)


@functools.cache
def rows(kind: str) -> _Table:
    """Return the rows of a source kind by the path of the member, the first that fits first."""
    tables = tomllib.loads(resources.files(__package__).joinpath("members.toml").read_text("utf-8"))
    own = dict(tables[kind])
    replicas = own.pop("replicas", None)
    named = {each.replace("{replicas}", replicas): row for each, row in tables["replicas"].items()} if replicas else {}
    found = {**own, **(tables["policies"] if replicas else {}), **named, **tables["all"]}
    return {tuple(each.split(".")): msgspec.convert(row, Row) for each, row in found.items()}


def _members(
    value: Mapping[str, object], at: tuple[str, ...], table: _Table, *, covered: bool = False
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the members that have a row, and, where nothing above them has one, those that no row speaks for."""
    for name, inner in value.items():
        member = (*at, str(name))
        has_row = _row(member, table) is not None
        below = inner if any(_fits(each[: len(member)], member) for each in table if len(each) > len(member)) else None
        inside = decoding.mapping(below)
        if has_row or not (inside or covered or inner in _EMPTY):
            yield member, inner
        yield from _members(inside, member, table, covered=covered or has_row)


def _row(member: Sequence[str], table: _Table) -> Row | None:
    return next((row for each, row in table.items() if len(each) == len(member) and _fits(each, member)), None)


def _fits(pattern: Sequence[str], member: Sequence[str]) -> bool:
    return all(each in ("*", name) for each, name in zip(pattern, member, strict=True))
