"""The results of a report: the newest of each job, counted, no more than an object can hold.

Pure. One report is about one namespace. A decision about a job takes the place of what was said of that job in the same
phase before, so writing it twice is the same as writing it once, and a job that was put right and applied again is not
shown as refused for ever. What is too old, or one too many, is left out: corrections first, for they need nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from webhook.notices.reports.outcomes import Result, Said, Subject

__all__ = ["OUTCOMES", "Limits", "folded", "summary"]

OUTCOMES = ("pass", "fail", "warn", "error", "skip")
"""What a result can be, in the order of a summary; Muster says nothing of jobs that it skips."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a report holds.

    Attributes:
        results: in one report.
        seconds: after which a result is left out.
        octets: of all results of a report; an object that etcd stores has 1.5 MiB at most.
    """

    results: int = 100
    seconds: float = 7 * 86400.0
    octets: int = 512 * 1024


def folded(present: Iterable[object], fresh: Iterable[Said], limits: Limits, now: float) -> list[Result]:
    """Return the results of a report after further decisions, newest first.

    Args:
        present: results that it has; what is none of Muster's is left out.
        fresh: decisions in any order; one that is older than what is there of the same job is passed over.
        limits: of the report.
        now: seconds since 1970.
    """
    by_subject: dict[Subject, list[Result]] = {}
    for each in present:
        if (about := _subject_of(each)) is not None:
            by_subject.setdefault(about, []).append(each)  # type: ignore[arg-type]  # checked by _subject_of
    for one in sorted(fresh, key=lambda one: (one.at, one.about)):
        there = by_subject.get(one.about, [])
        if any(_at(each) > one.at for each in there):
            continue
        kept = [each for each in there if one.replaces_errors_only and each["result"] != "error"]
        by_subject[one.about] = [*kept, *one.results]
    told = [each for about, some in by_subject.items() for each in _of_jobs_that_are(about, some, by_subject)]
    young = [each for each in told if _at(each)[0] >= now - limits.seconds]
    return sorted(_chosen(young, limits), key=_newest)


def summary(results: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many results there are of each outcome."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for each in results:
        counts[each["result"]] += 1
    return counts


def _of_jobs_that_are(
    about: Subject, results: Iterable[Result], by_subject: Mapping[Subject, Sequence[Result]]
) -> Iterator[Result]:
    """Yield results, but for corrections of a job that was denied after them: nothing came of these."""
    verdicts = by_subject.get(about._replace(phase="validate"), ())
    denied = max((_at(each) for each in verdicts if each["properties"].get("decision") == "denied"), default=(0, 0))
    for each in results:
        if about.phase == "validate" or each["result"] != "pass" or _at(each) > denied:
            yield each


def _chosen(results: Iterable[Result], limits: Limits) -> Iterator[Result]:
    """Yield the newest that there is room for; problems go before corrections."""
    room = limits.octets
    ranked = sorted(results, key=lambda each: (each["result"] == "pass", _newest(each)))
    for each in ranked[: limits.results]:
        room -= len(orjson.dumps(each)) + 1
        if room < 0:
            return
        yield each


def _newest(result: Result) -> tuple[int, int, bytes]:
    seconds, nanos = _at(result)
    return -seconds, -nanos, orjson.dumps(result, option=orjson.OPT_SORT_KEYS)


def _at(result: Mapping[str, Any]) -> tuple[int, int]:
    return result["timestamp"]["seconds"], result["timestamp"]["nanos"]


def _subject_of(result: object) -> Subject | None:
    """Return whom a result of a report is about, None for one that Muster would not have written."""
    match result:
        case {
            "source": "muster",
            "policy": str(),
            "result": str(outcome),
            "timestamp": {"seconds": int(), "nanos": int()},
            "resources": [{"kind": str(kind), "name": str(name)}],
            "properties": {"phase": str(phase)},
        } if outcome in OUTCOMES:
            return Subject(kind, name, phase)
    return None
