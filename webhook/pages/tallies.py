"""Counts the jobs of the newest decisions: corrected, warned and refused, by day and by namespace, and the rules.

One pass reads back from the newest end within a budget and checks only the members that it counts, since a whole check
of each record would take most of the time. It also gathers the values that filters can be chosen from.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from muster.audit import queries
from muster.audit.record_schema import BOOKKEEPING
from muster.webhook.pages import scans
from muster.webhook.pages.shelves import Shelf

__all__ = ["BUDGET", "OUTCOMES", "Outcome", "Tallies", "Tally", "tally"]

Outcome: TypeAlias = Literal["corrected", "warned", "refused"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

BUDGET = scans.Budget(lines=20_000, data=32 * 1024 * 1024)
_VALUES = 100  # of each filter
_LONGEST = 200  # characters of a name that is counted or offered
_RULES_OF_ONE = 64  # rules of one record that are counted
_RULES = 2_000  # different ones; a log of Muster has about a hundred
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_KEPT_FOR = 10.0  # seconds
_KEPT = 8
_NAMES: Mapping[str, Callable[[Any], Any]] = {
    "namespace": lambda record: record["object"]["namespace"],
    "framework": lambda record: record["framework"],
    "user": lambda record: record["user"]["username"],
    "job": lambda record: (record["owner"] or record["object"])["name"],
}


@dataclass(slots=True)
class Tally:
    """What was counted; a job counts once for each outcome, on the day of the decision.

    Attributes:
        days: jobs by day (YYYY-MM-DD) and outcome.
        namespaces: jobs by namespace and outcome.
        rules: jobs by rule.
        values: values of each filter, at most 100, the most frequent ones first.
        decisions: how many records were counted.
        reached: time of the oldest record that was read, "" when there was none.
        is_whole: whether all records were read, and not only the newest ones.
    """

    days: dict[str, Counter[Outcome]] = field(default_factory=dict)
    namespaces: dict[str, Counter[Outcome]] = field(default_factory=dict)
    rules: Counter[str] = field(default_factory=Counter)
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    decisions: int = 0
    reached: str = ""
    is_whole: bool = True


class Tallies:
    """Keeps the last few tallies for seconds, so that a page that is loaded again does not read the log again."""

    def __init__(self, shelf: Shelf, clock: Callable[[], float] = time.monotonic) -> None:
        self._shelf = shelf
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[tuple[str, str], ...], tuple[float, Tally]] = OrderedDict()

    def of(self, typed: Mapping[str, str], questions: queries.Questions) -> Tally:
        """Return the tally of these filters; `typed` names them."""
        key = tuple(sorted(typed.items()))
        with self._lock:
            made, kept = self._kept.get(key, (0.0, None))
            if kept is not None and self._clock() - made < _KEPT_FOR:
                return kept
        counted = tally(self._shelf, questions)
        with self._lock:
            self._kept[key] = (self._clock(), counted)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return counted


def tally(shelf: Shelf, questions: queries.Questions, budget: scans.Budget = BUDGET) -> Tally:
    """Count the newest decisions that meet the conditions.

    Raises:
        OSError: a file cannot be read.
    """
    out, count, lines, read = Tally(), _Count(), 0, 0
    with contextlib.closing(scans.walk(shelf, {}, questions.since)) as walked:
        for moment, found, value in walked:
            lines, read = lines + 1, read + found.weight
            out.reached = out.reached if moment == scans.UNKNOWN else moment
            if (seen := _seen(value)) is not None:
                count.offer(seen.names)
                if _answers(value, questions):
                    out.decisions += 1
                    count.add(seen)
            if lines >= budget.lines or read >= budget.data:
                out.is_whole = False
                break
    count.write(out)
    return out


@dataclass(frozen=True, slots=True)
class _Seen:
    names: tuple[Any, ...]  # in the order of `_NAMES`
    day: str
    namespace: str
    job: str
    outcomes: frozenset[Outcome]
    rules: frozenset[str]


class _Count:
    """Sets of jobs, each of at most as many members as lines were read."""

    def __init__(self) -> None:
        self._days: dict[str, dict[Outcome, set[tuple[str, str]]]] = {}
        self._namespaces: dict[str, dict[Outcome, set[tuple[str, str]]]] = {}
        self._rules: dict[str, set[tuple[str, str]]] = {}
        self._values: dict[str, Counter[str]] = {name: Counter() for name in _NAMES}

    def offer(self, names: tuple[Any, ...]) -> None:
        for counter, value in zip(self._values.values(), names, strict=True):
            if isinstance(value, str) and 0 < len(value) <= _LONGEST:
                counter[value] += 1

    def add(self, seen: _Seen) -> None:
        job = (seen.namespace, seen.job)
        for outcome in seen.outcomes:
            self._days.setdefault(seen.day, {}).setdefault(outcome, set()).add(job)
            self._namespaces.setdefault(seen.namespace, {}).setdefault(outcome, set()).add(job)
        for rule in seen.rules:
            if rule in self._rules or len(self._rules) < _RULES:
                self._rules.setdefault(rule, set()).add(job)

    def write(self, out: Tally) -> None:
        out.days = {day: _counted(each) for day, each in sorted(self._days.items())}
        out.namespaces = {name: _counted(each) for name, each in self._namespaces.items()}
        rules = sorted(self._rules.items(), key=lambda each: (-len(each[1]), each[0]))
        out.rules = Counter({rule: len(jobs) for rule, jobs in rules})
        for name, counter in self._values.items():
            out.values[name] = tuple(value for value, _ in counter.most_common(_VALUES))
        out.values["rule"] = tuple(rule for rule, _ in out.rules.most_common(_VALUES))


def _counted(jobs: dict[Outcome, set[tuple[str, str]]]) -> Counter[Outcome]:
    return Counter({outcome: len(each) for outcome, each in jobs.items()})


def _seen(record: Any) -> _Seen | None:
    """Return what is counted of a record; None for a line that has not the members of one."""
    try:
        subject, owner = record["object"], record["owner"]
        names = (record["time"], subject["namespace"], (owner or subject)["name"] or subject.get("generateName", ""))
        if not all(isinstance(each, str) for each in names) or not _DAY.match(names[0]):
            return None
        offered = tuple(read(record) for read in _NAMES.values())
        day, namespace, job = names[0][:10], names[1][:_LONGEST], names[2][:_LONGEST]
        changed, found = _of(record["changes"]) - BOOKKEEPING, _of(record["findings"])
        if record["dryRun"]:
            return _Seen(offered, day, namespace, job, frozenset(), frozenset())
        rules = frozenset(rule for rule in changed | found if 0 < len(rule) <= _LONGEST)
        return _Seen(offered, day, namespace, job, frozenset(_outcomes(record, bool(changed))), rules)
    except (AttributeError, KeyError, TypeError):
        return None


def _outcomes(record: Any, would_change: bool) -> Iterator[Outcome]:
    if record["decision"] == "denied":
        yield "refused"
    elif record["decision"] == "patched" and would_change:
        yield "corrected"
    elif record["mode"] != "enforce" and would_change:
        yield "warned"
    else:
        severities = {finding["severity"] for finding in record["findings"]}
        if "warning" in severities or (record["mode"] != "enforce" and "error" in severities):
            yield "warned"


def _of(parts: Any) -> set[str]:
    """Return the rules of the first changes or findings."""
    return {part["rule"] for part in itertools.islice(parts, _RULES_OF_ONE) if isinstance(part["rule"], str)}


def _answers(record: Any, questions: queries.Questions) -> bool:
    try:
        return questions.answered_by(record)
    except (AttributeError, KeyError, TypeError, ValueError):  # not a record; the list says so
        return False
