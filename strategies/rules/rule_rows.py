"""Rule rows: the rows of a version of a package, typed, by the flag that each is about."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias, cast

from msgspec import Struct, field

from muster.strategies import upstream
from muster.strategies.documents.findings import Severity

__all__ = ["RELATIONS", "Conditions", "Operand", "Row", "Rows", "load", "read"]

Scalar: TypeAlias = bool | int | float | str
Operand: TypeAlias = "Scalar | Sequence[Scalar] | Mapping[str, Operand]"
"""What a test compares with; a mapping is a table of tests."""
Conditions: TypeAlias = Mapping[str, Operand]
"""What has to hold, by setting."""

RELATIONS = (
    *("needs", "excludes", "one_of", "none_of", "min", "max", "above", "below", "divides", "multiple_of", "length"),
    *("same_as", "matches", "whole", "json", "members", "set", "has"),
)


class Row(Struct, frozen=True):
    """One rule about one flag; `muster.strategies.rules` explains each member.

    Attributes:
        relation: name of the relation.
        operand: what the relation compares with, conditions for `needs` and `excludes`.
        when: alternatives, of which one has to hold; empty for always.
        doubt: what makes a finding a warning that else denies the job; empty for nothing.
    """

    flag: str
    relation: str
    operand: Operand
    rule: str
    message: str
    when: tuple[Conditions, ...] = ()
    doubt: Conditions = field(default_factory=dict)
    at: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR
    always: bool = False


class Rows:
    """The rows of one version; a row is read when its flag is first asked for, since few are and TOML is slow to read.

    Args:
        text: a file of rows. What stands before `[[row]]` of another row is the row's own, and a row has `flag` and
            `always` each on a line of its own.

    Attributes:
        always: rows that are judged whatever is written.
        flags: the flags of all other rows, which are judged where they are written.
    """

    def __init__(self, text: str) -> None:
        self._texts: dict[str, list[str]] = {}
        self._read: dict[str, Sequence[Row]] = {}
        always = []
        for each in text.split("\n[[row]]\n")[1:]:
            if "\nalways = true\n" in each:
                always += read(each)
                continue
            for flag in _QUOTED.findall(each.partition("\n")[0]):
                self._texts.setdefault(flag, []).append(each)
        self.always: Sequence[Row] = always
        self.flags: Collection[str] = self._texts.keys()

    def of(self, flag: str) -> Sequence[Row]:
        """Return the rows that are judged where this flag is written."""
        if flag not in self._texts:
            return ()
        if flag not in self._read:
            self._read[flag] = [row for text in self._texts[flag] for row in read(text) if row.flag == flag]
        return self._read[flag]


@functools.cache
def load(package: str, version: str = "") -> Rows:
    """Return the rows of one version of a package; by default of the one that our images have.

    Raises:
        FileNotFoundError: nothing is known of this version.
    """
    return Rows("\n" + upstream.text(package, "rows.toml", version))


def read(text: str) -> list[Row]:
    """Return one row as it stands in a file, once for each of its flags."""
    written: Mapping[str, object] = tomllib.loads(text)
    named = cast("str | list[str]", written["flag"])
    return [_row(written, flag) for flag in (named if isinstance(named, list) else [named])]


def _row(written: Mapping[str, object], flag: str) -> Row:
    relation = next(name for name in RELATIONS if name in written)
    when = written.get("when", ())
    return Row(
        flag=flag,
        relation=relation,
        operand=cast("Operand", written[relation]),
        rule=str(written["rule"]),
        message=str(written["message"]),
        when=cast("tuple[Conditions, ...]", tuple(when) if isinstance(when, list) else (when,) if when else ()),
        doubt=cast("Conditions", written.get("doubt", {})),
        at=tuple(cast("list[str]", written.get("at", ()))),
        severity=Severity(written.get("level", "error")),
        always=written.get("always") is True,
    )


_QUOTED = re.compile(r'"([^"]+)"')
