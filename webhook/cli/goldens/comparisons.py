"""Comparisons: what a case expects beside what was decided, with as much of each as its author wrote.

An expectation may leave out any key. What it leaves out is not compared, so that a hand-written one stays short, and
texts of messages may change with the next release. Muster's own bookkeeping (`muster.dev/applied`) is never part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.audit.record_schema import BOOKKEEPING
from muster.strategies.changes.changes import Change
from muster.strategies.documents import names
from muster.strategies.documents.paths import Absent
from muster.webhook.cli import wording
from muster.webhook.cli.cases import Case
from muster.webhook.kubeyaml import jsons

__all__ = ["Comparison", "compare", "decided"]

_Entry = Mapping[str, Any]
_PATCH = ("op", "path", "value", "rule")
_FINDING = ("severity", "rule", "field")
_MEMORY = f"/metadata/annotations/{names.APPLIED_ANNOTATION.replace('/', '~1')}"


class Comparison(NamedTuple):
    """Two objects of JSON's types that are equal where a case is as expected."""

    expected: dict[str, Any]
    decided: dict[str, Any]

    @property
    def is_equal(self) -> bool:
        """Whether the case is as expected."""
        return jsons.dump(self.expected) == jsons.dump(self.decided)


def decided(case: Case) -> dict[str, Any]:
    """Return what was decided, in the form of expected.yaml and with a few members more."""
    changes = case.mutated.changes if case.mutated.verdict == "patched" else ()
    return {
        "decision": _decision(case),
        "framework": case.mutated.governor.framework,
        "mode": case.mutated.mode.value,
        "patch": [
            {
                "op": each.op,
                "path": each.field,
                "pointer": each.path,
                **({} if isinstance(each.after, Absent) else {"value": each.after}),
                "rule": each.rule,
            }
            for each in changes
            if not _is_memory(each)
        ],
        "findings": wording.findings(case),
    }


def compare(expected: Mapping[str, Any] | None, found: Mapping[str, Any]) -> Comparison:
    """Compare an expectation with a result of `decided`; None compares nothing and shows what is worth writing down."""
    if expected is None:
        return Comparison({}, _worth(found))
    shown: dict[str, Any] = {}
    for key, value in expected.items():
        if key == "patch":
            shown[key] = [entry for _, entry in _shown(value, found[key], _is_operation, _PATCH)]
        elif key == "findings":
            entries = _shown(value, found[key], _is_finding, _FINDING)
            shown[key] = [entry for _, entry in sorted(entries, key=lambda each: each[0])]
        else:
            shown[key] = found[key]
    return Comparison(dict(expected), shown)


def _decision(case: Case) -> str:
    if case.failure:
        return "error"  # whatever the failure mode makes of it: who expects a refusal does not mean this one
    return "denied" if case.refused else case.mutated.verdict


def _is_memory(change: Change) -> bool:
    """Whether a change writes or gives back nothing but Muster's own annotation."""
    is_alone = isinstance(change.after, dict) and set(change.after) == {names.APPLIED_ANNOTATION}
    return change.rule in BOOKKEEPING or is_alone or change.path == _MEMORY


def _worth(found: Mapping[str, Any]) -> dict[str, Any]:
    out = {"decision": found["decision"]}
    if found["decision"] == "patched":
        out["patch"] = [_short(each, _PATCH) for each in found["patch"]]
    return {**out, "findings": [_short(each, _FINDING) for each in found["findings"]]}


def _shown(
    expected: Sequence[_Entry],
    found: Sequence[_Entry],
    agrees: Callable[[_Entry, _Entry], bool],
    keys: tuple[str, ...],
) -> list[tuple[int, _Entry]]:
    """Return what was found, each entry as its expectation words it, with the place of that; the last place for none.

    An expectation that says more chooses first.
    """
    chosen: dict[int, int] = {}
    for place in sorted(range(len(expected)), key=lambda each: -len(expected[each])):
        free = (number for number, each in enumerate(found) if number not in chosen and agrees(expected[place], each))
        number = next(free, None)
        if number is not None:
            chosen[number] = place
    return [
        (chosen[number], expected[chosen[number]]) if number in chosen else (len(expected), _short(each, keys))
        for number, each in enumerate(found)
    ]


def _short(entry: _Entry, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: entry[key] for key in keys if key in entry}


def _is_operation(expected: _Entry, found: _Entry) -> bool:
    return all(
        value in (found["path"], found["pointer"]) if key == "path" else key in found and _same(value, found[key])
        for key, value in expected.items()
    )


def _is_finding(expected: _Entry, found: _Entry) -> bool:
    return all(
        value in found["message"] if key == "message" else _same(value, found[key]) for key, value in expected.items()
    )


def _same(first: Any, second: Any) -> bool:
    """Whether two values of JSON's types are equal; `True` is not 1."""
    return bool(first == second) and jsons.dump(first) == jsons.dump(second)
