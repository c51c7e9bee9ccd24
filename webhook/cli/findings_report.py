"""What was found about jobs: as lines for people, and as one value that each format of `muster check` shows.

A line is `FILE:LINE:COLUMN: severity: kind/name field: value: message (rule)`. Compilers write lines like these, so
editors jump to the place.

A finding names a field of the object as it was given, or as the cluster would store it. Muster may have added that
field, or have replaced the list that it is in. The place is then that of the nearest part that the user wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from muster.audit import scanner
from muster.strategies.documents import decoding, paths
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.paths import Path
from muster.webhook.cli import problems, unjudged
from muster.webhook.cli.cases import Case, Setup, is_job, is_judged, is_search
from muster.webhook.cli.problems import one_line, plural, versioned
from muster.webhook.cli.unjudged import Unjudged
from muster.webhook.cluster.readers import Document
from muster.webhook.kubeyaml import jsons
from muster.webhook.kubeyaml.composer import Spot
from muster.webhook.kubeyaml.sources import Origin, Source, Unreadable

__all__ = ["FAILURE", "Entry", "Report", "entries", "findings", "lines", "of_field", "place_of"]


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
    if not case.findings and not case.failure:
        return
    origin, title = case.source.origin, f"{case.title}{' (predicted)' if case.predicted else ''}"
    name = f"{case.namespace}/{case.title}"
    for each in case.findings:
        spot = of_field(case, each.field, each.value)
        yield Entry(origin, each.severity.value, f"{title} {each}", each.rule, spot, f"{name}/{each.field}")
    if case.failure:
        yield Entry(origin, "error", f"{title} {case.failure}", FAILURE, case.source.find(()), name)


def lines(case: Case) -> Iterator[str]:
    """Yield a line for each finding, and for a failure."""
    for each in entries(case):
        at = f"{each.origin.file}:{each.spot.line}:{each.spot.column}" if each.spot is not None else str(each.origin)
        yield one_line(f"{at}: {each.level}: {each.text}{'' if each.rule == FAILURE else f' ({each.rule})'}")


def place_of(origin: Origin) -> dict[str, object]:
    """Return the place of a document for JSON; an item and a line of 0 are none."""
    return {
        "file": origin.file,
        "document": origin.document,
        "item": origin.item or None,
        "line": origin.line or None,
    }


def findings(case: Case) -> list[dict[str, object]]:
    """Return the findings of a case for JSON, each with line and column of its field (None: not from a text)."""
    found = [(each, of_field(case, each.field, each.value)) for each in case.findings]
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
    def unreadable(self) -> Sequence[Unreadable]:
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
        return jsons.dump(scanner.value(versioned("check", shown))) + "\n"

    def summary(self) -> str:
        """Return how many of everything there are, in one line."""
        errors = sum(len(case.errors) + bool(case.failure) for case in self.decided)
        found = [each.severity for case in self.decided for each in case.findings]
        jobs = sum(is_job(each) or is_search(each) for each in self.setup.sources)
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


def _head(source: Source, **where: str) -> dict[str, object]:
    document = source.document
    name = decoding.member(document, "metadata").get("name")
    return {**place_of(source.origin), "apiVersion": document["apiVersion"], "kind": source.kind, **where, "name": name}


def _decision(case: Case) -> dict[str, object]:
    return {
        "framework": case.mutated.governor.framework,
        "mode": case.mutated.mode.value,
        "refused": case.refused,
        "failure": case.failure or None,
        "ending": case.ending or None,
    }


_WORDS = {"command": "args", "args": "command"}  # Muster may move a word from one to the other

_SEARCHED = 1000  # entries of a list; each of a thousand findings about a longer one would search it


def of_field(case: Case, field: str, value: object = None) -> Spot | None:
    """Return line and column of a field; None where the object is not from a text.

    Args:
        case: the object with its decisions; of a predicted one, the place of its TrainJob is returned.
        field: a field path, also one that the file does not have, or a text that is none.
        value: what the field holds, to tell words of the user's command from those that Muster wrote.
    """
    if case.predicted:
        return case.source.find(())
    written = case.source.document
    path = paths.nearest(written, field)
    is_there = paths.locate(written, field) == path
    if not is_there or not _holds(paths.lookup(written, path), value):
        path = path[:-1] if is_there and isinstance((0, *path)[-1], int) else path
        ways = (path, _followed(written, case.document, field), _moved(written, case.document, field))
        path = max(ways, key=len)
    return case.source.find(path)


def _holds(written: object, value: object) -> bool:
    """Whether a field may be the one with this value; of a word, a finding may quote the beginning."""
    if isinstance(written, str) and isinstance(value, str):
        return written.startswith(value)
    return value is None or written == value


def _followed(written: Document, stored: Document, field: str) -> Path:
    """Return the path in the written object of what `field` names in the stored one, as far as it is there."""
    out: Path = ()
    here: object = stored
    for part in paths.nearest(stored, field):
        here, around = paths.lookup(here, (part,)), paths.lookup(written, out)
        place = _only(decoding.sequence(around), here) if isinstance(part, int) else part
        if place is None or paths.lookup(around, (place,)) is paths.ABSENT:
            break
        out = (*out, place)
    return out


def _moved(written: Document, stored: Document, field: str) -> Path:
    """Return the path in the written object of a word that Muster has moved from `args` to `command`, or back."""
    *around, member, index = ("", "", *paths.nearest(stored, field))
    if not isinstance(index, int) or member not in _WORDS:
        return ()
    path = (*around[2:], _WORDS[str(member)])
    found = _only(decoding.sequence(paths.lookup(written, path)), paths.lookup(stored, (*around[2:], member, index)))
    return () if found is None else (*path, found)


def _only(entries: Sequence[object], entry: object) -> int | None:
    """Return the place of the only entry that is the given one: of its name, or equal; None where that is not sure."""
    if len(entries) > _SEARCHED:
        return None
    name = decoding.mapping(entry).get("name")
    compared = [each if name is None else decoding.mapping(each).get("name") for each in entries]
    same = [place for place, each in enumerate(compared) if each == (entry if name is None else name)]
    return same[0] if len(same) == 1 else None
