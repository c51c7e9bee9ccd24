"""Assignments: which role a replicated job has, and which label says so.

The nearest label wins: the pod template's, then that of the replicated job's template, the TrainJob's, the runtime's.
The label of a JobSet that Trainer did not make comes before the last two; a JobSet that Trainer made only repeats other
labels, so its own comes last. Labels above the replicated job apply to every replicated job except Trainer's
initializers, which only download.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template

__all__ = ["Assignment", "find_assignment", "within"]


class Assignment(Struct, frozen=True):
    """A role, as a label names it.

    Attributes:
        word: the label's value, valid or not.
        where: the object that carries the label, for reasons: `the JobSet's label`.
        field: the label's field path in that object.
    """

    word: str
    where: str
    field: str


def find_assignment(job: Job, template: Template) -> Assignment | None:
    """Return the nearest assignment of a replicated job; None where nothing names a role."""
    nearest = next(within(template), None)
    if nearest is not None or template.is_initializer:
        return nearest
    return Assignment(*job.common_role) if job.common_role else None


def within(template: Template) -> Iterator[Assignment]:
    """Yield the assignments of the replicated job's own labels, nearest first."""
    whose = ("the pod template's label", "the replicated job's label")
    for (labels, path), where in zip(template.metadata("labels"), whose, strict=True):
        word = labels.get(names.ROLE_LABEL)
        if word is not None:
            yield Assignment(word, where, template.locate((*path, names.ROLE_LABEL)))
