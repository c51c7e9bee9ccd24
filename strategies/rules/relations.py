"""Relations: rows are judged against a view of the settings of one launch, in three values: yes, no, cannot be read.

Rule rows: the rows of a version of a package, typed, by the flag that each is about.
"""

from __future__ import annotations

import difflib
import enum
import functools
import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, cast

from msgspec import Struct, field

from muster.strategies import upstream
from muster.strategies.documents.findings import Finding, Severity, beginning, error, note, warning

__all__ = [
    "RELATIONS",
    "UNKNOWN",
    "Conditions",
    "Operand",
    "Row",
    "Rows",
    "Unknown",
    "Value",
    "View",
    "from_json",
    "judge",
    "load",
    "member",
    "read",
]


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


class Unknown(enum.Enum):
    """The value of a setting that cannot be read: it holds a variable, or may stand in a file."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | Unknown | None"
"""A setting as upstream's parser types it. None: no value; a dict: an object that was written as JSON."""
Truth: TypeAlias = bool | None
"""None where it cannot be read."""


class View(Protocol):
    """The settings of one launch, and facts about it."""

    @property
    def written(self) -> Collection[str]:
        """The names of the settings that the launch writes itself."""

    def value(self, name: str) -> Value:
        """Return the value of a setting, its default where it is not written, or a fact; None for an unknown name."""

    def shown(self, name: str, value: Value) -> object:
        """Return what a finding about this setting shows; `value` is the item that is wrong."""

    def field(self, name: str) -> str:
        """Return the field path of a setting, or of the command line where the setting is not written."""


def judge(rows: Rows, view: View) -> Iterator[Finding]:
    """Yield a finding for each row that the settings break."""
    written = view.written
    about = (row for name in written if name in rows.flags for row in rows.of(name))
    for row in itertools.chain(about, rows.always):
        yield from _judged(row, view, written)


def _judged(row: Row, view: View, written: Collection[str]) -> Iterator[Finding]:
    if row.when and not any(_all_hold(each, view) for each in row.when):
        return
    value = view.value(row.flag)
    wrong = _wrong(row, value, view)
    if wrong is UNKNOWN:
        return
    place = next((name for name in row.at if name in written), row.at[0] if row.at else row.flag)
    message = _PLACEHOLDER.sub(lambda found: _told(found[1], row, wrong, view), row.message)
    if row.relation == "one_of":
        message += _hint(wrong, cast("Collection[object]", row.operand))
    shown = view.shown(place, wrong if place == row.flag else view.value(place))
    doubtful = bool(row.doubt) and _all_hold(row.doubt, view) is not False
    yield _REPORTS[Severity.WARNING if doubtful else row.severity](view.field(place), shown, message, rule=row.rule)


def _wrong(row: Row, value: Value, view: View) -> Value:
    """Return the value, or its item, that breaks the relation; UNKNOWN where none does, or it cannot be read."""
    if row.relation in ("needs", "excludes"):
        if value is UNKNOWN or value is None or value is False:
            return UNKNOWN
        held = _all_hold(cast("Conditions", row.operand), view)
        return value if held is (row.relation == "excludes") else UNKNOWN
    if row.relation == "set":
        return value if _tested("set", value, row.operand, view) is False else UNKNOWN
    if value is None:
        return UNKNOWN
    items = value if isinstance(value, list) and row.relation not in _OF_LISTS else [value]
    return next((each for each in items if _tested(row.relation, each, row.operand, view) is False), UNKNOWN)


def _all_hold(conditions: Conditions, view: View) -> Truth:
    known = True
    for name, test in conditions.items():
        value = view.value(name)
        for each, operand in test.items() if isinstance(test, Mapping) else (("one_of", test),):
            if each == "written":
                found: Truth = (name in view.written) is operand
            else:
                # A bound on a setting that has no value does not hold.
                found = False if value is None and each not in _OF_NONE else _tested(each, value, operand, view)
            if found is False:
                return False
            known = known and found is not None
    return True if known else None


def _tested(name: str, value: Value, operand: Operand, view: View) -> Truth:
    if value is UNKNOWN:
        return None
    if isinstance(value, list) and name not in _OF_LISTS:
        found = [_tested(name, each, operand, view) for each in value]
        return False if False in found or not found else None if None in found else True
    if name in _NUMERIC:
        one, other = _number(value), _evaluated(operand, view)
        return None if one is None or other is None else _NUMERIC[name](one, other)
    return _OTHERS[name](value, operand, view)


def _values(operand: object) -> Collection[object]:
    return operand if isinstance(operand, list | tuple) else (operand,)


def _is_among(value: object, operand: object) -> bool:
    """Whether a value is the operand, or one of its items: numbers by their value, and true is not 1."""
    values = operand if isinstance(operand, list | tuple) else (operand,)
    return any(value == each and isinstance(value, bool) is isinstance(each, bool) for each in values)


def _same(value: Value, operand: Operand, view: View) -> Truth:
    other = _evaluated(operand, view)
    if other is None and isinstance(operand, str):
        found = view.value(operand)
        return None if found is UNKNOWN or found is None else _is_among(value, (found,))
    number = _number(value)
    return None if other is None or number is None else number == other


def from_json(text: str) -> Value:
    """Return the object that a text is in JSON, else the text, as views give settings that may be either."""
    try:
        found: Value = json.loads(text) if text.lstrip().startswith("{") else text
    except (ValueError, RecursionError):
        return text
    return found


def member(found: Value, path: str) -> Value:
    """Return a member of a setting that is an object, by its names with dots between; UNKNOWN in a file's name."""
    for name in path.split("."):
        if not isinstance(found, dict):
            return None if found is None or found == "" else UNKNOWN
        found = found.get(name)
    return found


def _multiple(one: float, other: float) -> bool:
    return other != 0 and one % other == 0


_NUMERIC: Mapping[str, Callable[[float, float], bool]] = {
    "min": lambda one, other: one >= other,
    "max": lambda one, other: one <= other,
    "above": lambda one, other: one > other,
    "below": lambda one, other: one < other,
    "multiple_of": _multiple,
    "divides": lambda one, other: _multiple(other, one),
}
_OTHERS: Mapping[str, Callable[[Value, Operand, View], Truth]] = {
    "one_of": lambda value, operand, _: _is_among(value, operand),
    "none_of": lambda value, operand, _: not _is_among(value, operand),
    "not": lambda value, operand, _: not _is_among(value, operand),
    "same_as": _same,
    "length": lambda value, operand, view: _same(len(value) if isinstance(value, list) else 1, operand, view),
    "matches": lambda value, operand, _: (
        re.fullmatch(str(operand), value) is not None if isinstance(value, str) else None
    ),
    "whole": lambda value, _, __: None if (found := _number(value)) is None else float(found).is_integer(),
    "json": lambda value, _, __: not (isinstance(value, str) and value.lstrip().startswith("{")),
    "members": lambda value, operand, _: not isinstance(value, dict) or value.keys() <= set(_values(operand)),
    "set": lambda value, operand, _: (value is not None and value not in ("", [])) is operand,
    "has": lambda value, operand, _: any(
        _is_among(each, operand) for each in (value if isinstance(value, list) else [value])
    ),
}
_OF_LISTS = frozenset({"length", "has", "members", "json", "set"})
_OF_NONE = frozenset({"set", "not", "none_of", "one_of"})


def _number(value: object) -> float | None:
    """Return a number as it is; None for anything else. A text such as `auto` is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _evaluated(operand: Operand, view: View) -> float | None:
    """Return what an expression comes to; None where a part of it is no number, or cannot be read."""
    if not isinstance(operand, str):
        return _number(operand)
    total = 0.0
    for product in _parsed(operand):
        part = 1.0
        for atom in product:
            value = _number(_atom(atom, view)) if isinstance(atom, str) else atom
            if value is None:
                return None
            part *= value
        total += part
    return total


@functools.lru_cache(maxsize=1_024)
def _parsed(expression: str) -> tuple[tuple[float | str, ...], ...]:
    products = [[each.strip() for each in product.split("*")] for product in expression.split("+")]
    return tuple(tuple(float(each) if each.isdecimal() else each for each in product) for product in products)


def _atom(name: str, view: View) -> Value:
    if not name.startswith("len("):
        return view.value(name)
    found = view.value(name[4:-1])
    if found is UNKNOWN:
        return UNKNOWN
    return len(found) if isinstance(found, list) else 0 if found in (None, "") else 1


def _told(name: str, row: Row, wrong: Value, view: View) -> str:
    """Return what stands in a message for a placeholder."""
    if name == "value":
        return _text(wrong)
    if name == "allowed":
        return ", ".join(map(str, _values(row.operand)))
    found = view.value(name)
    if found is None or found is UNKNOWN:
        number = _evaluated(name, view)
        found = found if number is None else number
    return _text(found)


def _text(value: Value) -> str:
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    return beginning(" ".join(map(_text, value)) if isinstance(value, list) else str(value), _SHOWN)


def _hint(wrong: Value, allowed: Collection[object]) -> str:
    near = difflib.get_close_matches(str(wrong)[:_LONGEST].lower(), [str(each) for each in allowed], 1, _NEAR)
    return f"; did you mean {near[0]}?" if near else ""


_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_LONGEST, _SHOWN, _NEAR = 60, 200, 0.7
_REPORTS = {Severity.ERROR: error, Severity.WARNING: warning, Severity.NOTE: note}
