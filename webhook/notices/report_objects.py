"""A report as an object: the newest results of each job, counted, limited to what an object can hold.

Pure. One report is about one namespace. A decision about a job replaces the earlier results of that job in the same
phase, so writing it twice has the same effect as writing it once, and a job that was fixed and applied again is not
shown as denied any more. Results that are too old or too many are left out, corrections first, since they need no
action.

The two formats of reports differ in little but their names: Report is that of `openreports.io/v1alpha1` in
github.com/openreports/reports-api (v0.2.1), PolicyReport that of `wgpolicyk8s.io/v1alpha2`, as Kyverno installs it
(v1.18). Muster never changes reports of other tools: its own has a fixed name and a label that names its manager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from muster.webhook.cluster import kinds, served
from muster.webhook.notices import outcomes
from muster.webhook.notices.outcomes import Result, Said, Subject

__all__ = ["FORMATS", "NAME", "OUTCOMES", "Format", "Limits", "folded", "is_ours", "rendered", "summary"]

NAME = "muster"
"""The name of the report in each namespace; RBAC names it too."""
OUTCOMES = ("pass", "fail", "warn", "error", "skip")
"""The outcomes of a result, in the order of a summary; Muster reports nothing about jobs that it skips."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a report.

    Attributes:
        results: the number of results in one report.
        seconds: the age after which a result is left out.
        octets: the size of all results of a report; etcd stores objects of at most 1.5 MiB.
    """

    results: int = 100
    seconds: float = 7 * 86400.0
    octets: int = 512 * 1024


@dataclass(frozen=True, slots=True)
class Format:
    """One format of reports.

    Attributes:
        kind: the kind of its objects.
        brought: what installs the CustomResourceDefinition.
        rights: the file with the RBAC rules that Muster needs.
        own_source: whether the report itself, besides each result, names its source and its limit of results.
    """

    kind: served.Kind
    brought: str
    rights: str
    own_source: bool


FORMATS: Mapping[str, Format] = {
    "openreports": Format(
        kinds.REPORTS["openreports"],
        "config/crd of github.com/openreports/reports-api, or its Helm chart",
        "rbac-openreports.yaml",
        own_source=True,
    ),
    "policyreport": Format(
        kinds.REPORTS["policyreport"],
        "Kyverno, or policy-report/crd/v1alpha2 of github.com/kubernetes-sigs/wg-policy-prototypes",
        "rbac-policyreports.yaml",
        own_source=False,
    ),
}
"""The formats, by the value of `audit.reports`."""


def folded(present: Iterable[object], fresh: Iterable[Said], limits: Limits, now: float) -> list[Result]:
    """Return the results of a report after new decisions, newest first.

    Args:
        present: the results that it has; results that Muster did not write are left out.
        fresh: decisions in any order; one that is older than a present result of the same job is ignored.
        limits: the limits of the report.
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


def is_ours(report: Mapping[str, Any]) -> bool:
    """Whether Muster made a report."""
    labels = report["metadata"].get("labels") or {}
    return dict(labels).get(kinds.MANAGED_LABEL) == kinds.MANAGER


def rendered(
    form: Format, present: Mapping[str, Any] | None, namespace: str, results: Sequence[Result], most: int
) -> dict[str, Any]:
    """Return a report with these results: the present report with its other members unchanged, or a new one.

    Args:
        form: the format.
        present: the report as the API server has it, None when there is none.
        namespace: the namespace of a new report.
        results: all of its results.
        most: how many results it can have.
    """
    base: dict[str, Any] = (
        dict(present)
        if present
        else {
            "apiVersion": form.kind.api_version,
            "kind": form.kind.served,
            "metadata": {"name": NAME, "namespace": namespace, "labels": {kinds.MANAGED_LABEL: kinds.MANAGER}},
        }
    )
    if form.own_source:
        base |= {"source": outcomes.SOURCE, "configuration": {"limits": {"maxResults": most}}}
    return base | {"summary": summary(results), "results": list(results)}


def _of_jobs_that_are(
    about: Subject, results: Iterable[Result], by_subject: Mapping[Subject, Sequence[Result]]
) -> Iterator[Result]:
    """Yield results without corrections of a job that was denied afterwards, since these had no effect."""
    verdicts = by_subject.get(about._replace(phase="validate"), ())
    denied = max((_at(each) for each in verdicts if each["properties"].get("decision") == "denied"), default=(0, 0))
    for each in results:
        if about.phase == "validate" or each["result"] != "pass" or _at(each) > denied:
            yield each


def _chosen(results: Iterable[Result], limits: Limits) -> Iterator[Result]:
    """Yield the newest results that fit; problems come before corrections."""
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
    """Return the job that a result of a report is about, None for a result that Muster would not have written."""
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
