"""Endings: how the explanation of a job ends, in one sentence, so that nobody takes silence for consent.

There are three. *right*: nothing is open. *open*: Muster cannot see something that decides whether the job is right, or
does not check it, and the sentence says what that means. *mend*: there are errors to mend or warnings to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from muster.audit.record_schema import BOOKKEEPING
from muster.strategies.documents.findings import Severity
from muster.strategies.launches.worlds import World
from muster.webhook.cli import wording
from muster.webhook.cli.cases import Case

__all__ = ["Ending", "end"]

_OWN = (
    "this is a program of your own: Muster gives each node its rank and the coordinator's address by env, and cannot "
    "see whether the program uses them"
)

_UNREAD = "Muster cannot read what this launch starts; it sets the rendezvous by env, and can say no more about it"


class Ending(TypedDict):
    """The kind of an ending, and its sentence."""

    kind: Literal["right", "open", "mend"]
    text: str


def end(case: Case, world: World | None, before: Mapping[str, Any] | None = None, *, unread: bool = False) -> Ending:
    """Return how the explanation of a case ends.

    Args:
        case: the job with its decisions.
        world: what its launch makes, None where that is not known.
        unread: whether Muster cannot read what its launch starts.
        before: the explanation of the TrainJob from which a predicted JobSet follows.
    """
    todo = _todo(case)
    if todo:
        return Ending(kind="mend", text=todo)
    unseen = _unseen(case)
    if unseen:
        return Ending(kind="open", text=unseen)
    if case.mutated.governor.owner is not None:
        return _following(case, before)
    if unread or (world is not None and world.own and world.nodes != 1):
        return Ending(kind="open", text=_UNREAD if unread else _OWN)
    return Ending(kind="right", text=_right(case))


def _todo(case: Case) -> str:
    """Return what there is to mend or to read, "" for nothing."""
    errors, warnings = (_count(case, each) for each in (Severity.ERROR, Severity.WARNING))
    if case.failure:
        return "no decision could be made; see the failure above"
    if errors:
        told = f"{wording.plural(errors, 'error')} to mend"
        told += f" and {wording.plural(warnings, 'warning')} to read" if warnings else ""
        passes = "its missing label" if case.is_unlabelled else f"mode {case.mutated.mode.value}"
        return f"{told}; {'the cluster refuses this job' if case.refused else f'{passes} lets this job pass'}"
    if _unmade(case):
        return f"mode {case.mutated.mode.value} makes none of the changes above, so the job runs without them"
    return f"{wording.plural(warnings, 'warning')} to read; the job passes" if warnings else ""


def _unseen(case: Case) -> str:
    """Return what Muster cannot see or does not check, "" where it saw everything."""
    decision = case.mutated
    framework, registered = decision.governor.framework, decision.strategy
    if decision.verdict == "skipped":
        return "Muster is off for this job, so nothing was checked"
    if framework is None:
        return "its framework is not known, so its launch was not checked, only what holds for every job"
    if registered is None or registered.strategy.framework != framework:
        return f"framework {framework} has no strategy, so its launch was not checked, only what holds for every job"
    if _count(case, Severity.NOTE):
        return "nothing that Muster can see is wrong; what it cannot see is in the notes above"
    return ""


def _following(case: Case, before: Mapping[str, Any] | None) -> Ending:
    """End the section of a JobSet that Trainer makes: its launch is judged where its author reads it."""
    owner = (case.mutated.governor.owner or {}).get("metadata") or {}
    if before is None:
        judged = f"TrainJob {owner.get('name')}, from which Trainer made this JobSet"
        return Ending(kind="open", text=f"nothing is wrong here; the launch is judged at {judged}")
    if before["ending"]["kind"] == "right":
        return Ending(kind="right", text=_right(case))
    text = "see the end of the TrainJob above; this JobSet adds nothing to it"
    return Ending(kind=before["ending"]["kind"], text=text)


def _right(case: Case) -> str:
    if any(change.rule not in BOOKKEEPING for change in case.mutated.changes):
        return "the job is right with the changes above, and nothing is open"
    return "the job is right as it is, and nothing is open"


def _unmade(case: Case) -> bool:
    changes = [change for change in case.mutated.changes if change.rule not in BOOKKEEPING]
    return bool(changes) and case.mutated.verdict != "patched"


def _count(case: Case, severity: Severity) -> int:
    return sum(each.severity is severity for each in case.findings)
