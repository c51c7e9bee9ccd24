"""Successes: when a Job or a JobSet counts as complete, and sets that never do.

A JobSet with the operator All waits for the end of each replicated job that its success policy names, and of all when
it names none (jobset `pkg/controllers/success_policy.go`). A server among them never ends. The rules of a Job
are those of kubernetes `pkg/apis/batch/validation/validation.go` validateSuccessPolicy and
validateIndexesFormat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import loose, names
from muster.strategies.documents.findings import Finding, note, warning
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.templates import Template
from muster.strategies.launches.endless import Reader

__all__ = ["check", "faults"]

_LONGEST = 4_096  # characters of a list of indexes
_DIGITS = 10
_MOST = 20  # rules


def check(spec: Mapping[str, Any], templates: Sequence[Template], reader: Reader) -> Iterator[Finding]:
    """Report a replicated job that never ends and that a JobSet waits for, beside one that may end.

    Args:
        spec: of the JobSet.
        templates: its replicated jobs.
        reader: says which containers never end.
    """
    policy = loose.mapping(spec.get("successPolicy"))
    targets = policy.get("targetReplicatedJobs")
    named = set(map(str, targets)) if isinstance(targets, list) else set()
    if policy.get("operator", "All") != "All" or len(templates) < 2:
        return
    waiting = {index for index, each in enumerate(templates) if _never_ends(each, reader)}
    if len(waiting) == len(templates):
        return
    # By its name alone, the launcher of MPI may be another program than a training, and end the daemons of its nodes.
    runtime = templates[0].runtime
    daemons = runtime is not None and runtime.ml_policy.get("mpi") is not None and runtime.is_unlabelled
    for index in sorted(waiting):
        name = templates[index].job.get("name")
        if not named or name in named:
            message = (
                "never ends, and the set is complete only when this replicated job has ended too, so that it keeps its "
                "devices for ever; name the training in successPolicy.targetReplicatedJobs"
            )
            place = templates[index].locate((*templates[index].path, "name"))
            yield (note if daemons and name == names.CONTAINER_NODE else warning)(
                place, name, message, rule="core/endless-part"
            )


def _never_ends(template: Template, reader: Reader) -> bool:
    return any(map(reader.never_ends, template.spec.get("containers") or ()))


def faults(policy: Any, completions: Any) -> Iterator[tuple[Path, Any, str]]:
    """Yield what is wrong with the success policy of an Indexed Job: place inside it, value and message.

    Args:
        policy: `successPolicy` of the Job.
        completions: how many indexes the Job has; anything but a number is not judged.
    """
    rules = loose.mapping(policy).get("rules")
    if isinstance(rules, list) and not 0 < len(rules) <= _MOST:
        yield ("rules",), None, f"needs 1 to {_MOST} rules"
    for index, rule in enumerate(loose.sequence(rules)):
        indexes, count = loose.mapping(rule).get("succeededIndexes"), loose.mapping(rule).get("succeededCount")
        place: Path = ("rules", index)
        if indexes is None and count is None:
            yield place, None, "a rule needs succeededIndexes or succeededCount"
        if isinstance(indexes, str) and len(indexes) <= _LONGEST and type(completions) is int:
            held = _indexes(indexes, completions)
            if held is None:
                message = f"is not a rising list of indexes, such as 0,2-4, of the {completions} that the Job has"
                yield (*place, "succeededIndexes"), indexes, message
            elif type(count) is int and count > held:
                yield (*place, "succeededCount"), count, f"is above the {held} indexes of the rule"
        elif type(count) is int and type(completions) is int and count > completions:
            yield (*place, "succeededCount"), count, f"is above completions, {completions}"


def _indexes(text: str, completions: int) -> int | None:
    """Return how many indexes a list has; None where it is none, or names one that the Job has not."""
    last, held = -1, 0
    for part in text.split(","):
        start, dash, end = part.partition("-")
        first, final = _number(start), _number(end if dash else start)
        if first is None or final is None or not last < first <= final < completions or (dash and first == final):
            return None
        held, last = held + final - first + 1, final
    return held


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None
