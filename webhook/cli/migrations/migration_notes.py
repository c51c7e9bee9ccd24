"""What the conversion of one document says about its members, and how the members of an unchecked document are read.

A wrong type ends the migration of the document.

"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

__all__ = [
    "Migrated",
    "Note",
    "Notes",
    "Unmigrated",
    "integer",
    "objects",
    "path",
    "rows",
    "section",
    "string",
    "typed",
]

_Table: TypeAlias = Mapping[tuple[str, ...], Mapping[str, Any]]
_EMPTY: tuple[Any, ...] = (None, "", {}, [])
_UNKNOWN = "muster migrate does not know this member; compare it with the API of its operator"


class Unmigrated(Exception):  # noqa: N818  # a document that stays as it is, not a defect of this program
    """A document that has no TrainJob; the message names the field and what to do."""


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

    documents: list[dict[str, Any]]
    notes: list[Note] = field(default_factory=list)

    @property
    def lost(self) -> list[Note]:
        """What has no equivalent."""
        return [each for each in self.notes if each.fate == "lost"]


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

    def judge(self, document: Mapping[str, Any], kind: str) -> None:
        """Note what the table says about each member that the document has."""
        table = rows(kind)
        for member, value in _members(document, (), table):
            row = _row(member, table)
            if row is None:
                self.lost(path(member), _UNKNOWN)
                continue
            case = row.get("cases", {}).get(str(value), row)
            if case["fate"] in ("changed", "lost") and value is not False and value not in _EMPTY:
                self._add(Note(case["fate"], path(member), case["text"], case.get("to", "")))

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
    return {tuple(each.split(".")): row for each, row in found.items()}


def path(member: Sequence[str | int]) -> str:
    """Return `spec.volumes[0].name`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in member)
    return text.removeprefix(".")


def _members(
    value: Mapping[str, Any], at: tuple[str, ...], table: _Table, *, covered: bool = False
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the members that have a row, and, where nothing above them has one, those that no row speaks for."""
    for name, inner in value.items():
        member = (*at, str(name))
        has_row = _row(member, table) is not None
        deeper = isinstance(inner, dict) and any(
            _fits(each[: len(member)], member) for each in table if len(each) > len(member)
        )
        if has_row or not (deeper or covered or inner in _EMPTY):
            yield member, inner
        if deeper:
            yield from _members(inner, member, table, covered=covered or has_row)


def _row(member: Sequence[str], table: _Table) -> Mapping[str, Any] | None:
    return next((row for each, row in table.items() if len(each) == len(member) and _fits(each, member)), None)


def _fits(pattern: Sequence[str], member: Sequence[str]) -> bool:
    return all(each in ("*", name) for each, name in zip(pattern, member, strict=True))


_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a number"}


def section(value: Mapping[str, Any], *at: str) -> dict[str, Any]:
    """Return an object inside of another; {} where there is none."""
    found: Any = value
    for depth, name in enumerate(at, 1):
        found = _typed(found.get(name), dict, at[:depth]) or {}
    return dict(found)


def typed(value: Mapping[str, Any], wanted: type, *at: str) -> Any:
    """Return a member of a type; None where there is none."""
    return _typed(section(value, *at[:-1]).get(at[-1]), wanted, at)


def string(value: Mapping[str, Any], *at: str) -> str:
    """Return a text; "" where there is none."""
    return typed(value, str, *at) or ""


def integer(value: Mapping[str, Any], *at: str, default: int) -> int:
    """Return a number."""
    found: int | None = typed(value, int, *at)
    return default if found is None else found


def objects(value: Any, at: str) -> list[dict[str, Any]]:
    """Return a list of objects; [] where there is none."""
    found = _typed(value, list, (at,)) or []
    for number, each in enumerate(found):
        if not isinstance(each, dict):
            raise Unmigrated(f"{at}[{number}]: must be an object; correct it, then migrate")
    return list(found)


def _typed(value: Any, wanted: type, at: tuple[str, ...]) -> Any:
    if value is not None and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
        raise Unmigrated(f"{path(at)}: must be {_NAMES[wanted]}; correct it, then migrate")
    return value
