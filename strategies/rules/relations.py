"""Relations: rows are judged against a view of the settings of one launch, in three values: yes, no, cannot be read."""

from __future__ import annotations

import difflib
import enum
import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, cast

from muster.strategies.documents.findings import Finding, Severity, beginning, error, note, warning
from muster.strategies.rules.rule_rows import Conditions, Operand, Row, Rows

__all__ = ["UNKNOWN", "Unknown", "Value", "View", "from_json", "judge", "member"]


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

    def written(self) -> Collection[str]:
        """Return the names of the settings that the launch writes itself."""

    def value(self, name: str) -> Value:
        """Return the value of a setting, its default where it is not written, or a fact; None for an unknown name."""

    def shown(self, name: str, value: Value) -> object:
        """Return what a finding about this setting shows; `value` is the item that is wrong."""

    def field(self, name: str) -> str:
        """Return the field path of a setting, or of the command line where the setting is not written."""


def judge(rows: Rows, view: View) -> Iterator[Finding]:
    """Yield a finding for each row that the settings break."""
    written = view.written()
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
        found = _holds(name, test, view)
        if found is False:
            return False
        known = known and found is not None
    return True if known else None


def _holds(name: str, test: Operand, view: View) -> Truth:
    if not isinstance(test, Mapping):
        return _tested("one_of", view.value(name), test, view)
    known = True
    for each, operand in test.items():
        if each == "written":
            found: Truth = (name in view.written()) is operand
        else:
            value = view.value(name)
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
