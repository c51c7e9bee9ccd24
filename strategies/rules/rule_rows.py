"""Rule rows: the rows of a version of a package, typed, by the flag that each is about."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

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


@dataclass(frozen=True, slots=True)
class Row:
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


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one version.

    Attributes:
        by_flag: rows that are judged where their flag is written.
        always: rows that are judged whatever is written.
    """

    by_flag: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    always: Sequence[Row] = ()


@functools.cache
def load(package: str, version: str = "") -> Rows:
    """Return the rows of one version of a package; by default of the one that our images have.

    Raises:
        FileNotFoundError: nothing is known of this version.
    """
    return read(upstream.rows(package, version))


def read(written: Sequence[Mapping[str, object]]) -> Rows:
    """Return rows as they stand in a file, by flag."""
    by_flag: dict[str, list[Row]] = {}
    always: list[Row] = []
    for each in written:
        named = cast("str | list[str]", each["flag"])
        for flag in named if isinstance(named, list) else [named]:
            row = _row(each, flag)
            (always if row.always else by_flag.setdefault(flag, [])).append(row)
    return Rows(by_flag, always)


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
