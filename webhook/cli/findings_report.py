"""What was found about jobs: as lines for people, and as one value that each format of `muster check` shows.

A line is `FILE:LINE:COLUMN: severity: kind/name field: value: message (rule)`. Compilers write lines like these, so
editors jump to the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from muster.strategies.documents import loose
from muster.strategies.documents.findings import Severity
from muster.webhook.cli import field_places, problems, unjudged
from muster.webhook.cli.cases import Case, Setup, is_job, is_judged
from muster.webhook.cli.problems import one_line, plural, versioned
from muster.webhook.cli.unjudged import Unjudged
from muster.webhook.kubeyaml import jsons
from muster.webhook.kubeyaml.composer import Spot
from muster.webhook.kubeyaml.sources import Origin, Source

__all__ = ["FAILURE", "Entry", "Report", "entries", "findings", "lines", "place", "place_of"]

FAILURE = "failure"
"""The rule of an entry that says why no decision could be made."""


class Entry(NamedTuple):
    """One finding or failure.

    Attributes:
        origin: the object.
        level: `error`, `warning` or `note`.
        text: with the title of the object.
        rule: its id.
        spot: of the field; None where the object is not from a text.
        name: `NAMESPACE/KIND/NAME/FIELD`.
    """

    origin: Origin
    level: str
    text: str
    rule: str = ""
    spot: Spot | None = None
    name: str = ""


def entries(case: Case) -> Iterator[Entry]:
    """Yield the findings of a case, and its failure."""
    origin, title = case.source.origin, f"{case.title}{' (predicted)' if case.predicted else ''}"
    name = f"{case.namespace}/{case.title}"
    for each in case.findings:
        spot = field_places.of_finding(case, each)
        yield Entry(origin, each.severity.value, f"{title} {each}", each.rule, spot, f"{name}/{each.field}")
    if case.failure:
        yield Entry(origin, "error", f"{title} {case.failure}", FAILURE, case.source.find(()), name)


def lines(case: Case) -> Iterator[str]:
    """Yield a line for each finding, and for a failure."""
    for each in entries(case):
        at = f"{each.origin.file}:{each.spot.line}:{each.spot.column}" if each.spot is not None else str(each.origin)
        yield one_line(f"{at}: {each.level}: {each.text}{'' if each.rule == FAILURE else f' ({each.rule})'}")


def place(case: Case) -> str:
    """Return place and name of the job."""
    return f"{case.source.origin} {case.title}{' (predicted)' if case.predicted else ''}"


def place_of(origin: Origin) -> dict[str, Any]:
    """Return the place of a document for JSON; an item and a line of 0 are none."""
    return {
        "file": origin.file,
        "document": origin.document,
        "item": origin.item or None,
        "line": origin.line or None,
    }


def findings(case: Case) -> list[dict[str, Any]]:
    """Return the findings of a case for JSON, each with line and column of its field (None: not from a text)."""
    found = [(each, field_places.of_finding(case, each)) for each in case.findings]
    return [
        {
            "severity": each.severity.value,
            "line": spot and spot.line,
            "column": spot and spot.column,
            "field": each.field,
            "value": each.value,
            "message": each.message,
            "rule": each.rule,
        }
        for each, spot in found
    ]


class Report(Struct, frozen=True):
    """What `muster check` found.

    Attributes:
        decided: the cases, with their endings.
        others: documents that were not judged.
        setup: the input.
        strict: whether warnings fail, and documents that train and were not judged.
        strict_open: whether an ending that is open fails.
    """

    decided: Sequence[Case]
    others: Sequence[Unjudged]
    setup: Setup
    strict: bool = False
    strict_open: bool = False

    @property
    def unreadable(self) -> Sequence[Any]:
        """What could not be read."""
        return self.setup.unreadable

    @property
    def code(self) -> int:
        """The exit code; `NOTHING` where nothing was there to check."""
        if self.unreadable:
            return problems.UNREADABLE
        if not any(map(is_judged, self.setup.sources)):
            return problems.NOTHING
        fails = any(case.fails(strict=self.strict, strict_open=self.strict_open) for case in self.decided)
        fails = fails or (self.strict and any(each.trains for each in self.others))
        return problems.FOUND if fails else problems.CLEAN

    def text(self) -> str:
        """Return the lines of all cases."""
        return "".join(f"{line}\n" for case in self.decided for line in lines(case))

    def json(self) -> str:
        """Return `muster.dev/check/v1`."""
        shown = [
            {**_head(case.source, namespace=case.namespace), **_decision(case), "findings": findings(case)}
            for case in self.decided
        ]
        shown += [
            {**_head(each.source), "notJudged": one_line(each), "trains": each.trains, "findings": []}
            for each in self.others
        ]
        for each in self.unreadable:
            about = place_of(each.origin)
            shown.append({**about, "document": about["document"] or None, "unreadable": each.message})
        return jsons.dump(versioned("check", shown)) + "\n"

    def summary(self) -> str:
        """Return how many of everything there are, in one line."""
        errors = sum(len(case.errors) + bool(case.failure) for case in self.decided)
        found = [each.severity for case in self.decided for each in case.findings]
        jobs = sum(map(is_job, self.setup.sources))
        checked = sum(map(is_judged, self.setup.sources)) - jobs
        unread = sum(is_job(each.source) for each in self.others)
        open_ends = sum(case.is_open for case in self.decided) - unread
        hidden = sum(len(case.all_findings) - len(case.findings) for case in self.decided)
        text = f"{plural(jobs - unread, 'job')}: {plural(errors, 'error')}"
        text += f", {plural(found.count(Severity.WARNING), 'warning')}"
        notes = found.count(Severity.NOTE)
        parts = [
            f"{plural(checked, 'other document')} checked" * bool(checked),
            *unjudged.counted(self.others),
            f"{plural(open_ends, 'job')} end{'s' if open_ends == 1 else ''} as open" * (open_ends > 0),
            f"{plural(hidden, 'finding')} not selected" * bool(hidden),
            f"{len(self.unreadable)} could not be read" * bool(self.unreadable),
        ]
        return "; ".join([text + (f", {plural(notes, 'note')}" if notes else ""), *filter(None, parts)])


def _head(source: Source, **where: str) -> dict[str, Any]:
    document = source.document
    name = loose.member(document, "metadata").get("name")
    return {**place_of(source.origin), "apiVersion": document["apiVersion"], "kind": source.kind, **where, "name": name}


def _decision(case: Case) -> dict[str, Any]:
    return {
        "framework": case.mutated.governor.framework,
        "mode": case.mutated.mode.value,
        "refused": case.refused,
        "failure": case.failure or None,
        "ending": case.ending or None,
    }
