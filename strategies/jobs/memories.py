"""Memories: what is found out about a job is found once for each state of its document.

A decision asks for the container, the launch and the topology of a job some hundred times. `once` is for what a view of
a job tells, `once_for_all` for what is the same in all its views, and `once_for_part` for what one part alone decides,
which the changes of the other parts leave as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, TypeVarTuple

from muster.strategies.changes.changes import Changes

__all__ = ["once", "once_for_all", "once_for_part"]


class _Subject(Protocol):
    """A job, or the view of one of its parts: the part, and the changes, whose `known` each change empties."""

    @property
    def changes(self) -> Changes: ...

    @property
    def part(self) -> int: ...

    @property
    def state(self) -> tuple[int, int]: ...

    @property
    def memory(self) -> dict[Any, tuple[Any, ...]]: ...


_Job = TypeVar("_Job", bound=_Subject)
_Found = TypeVar("_Found")
_More = TypeVarTuple("_More")


def once(find: Callable[[_Job], _Found]) -> Callable[[_Job], _Found]:
    """Compute once for each state of a job; what is returned depends on the job alone, and nobody may change it."""

    @functools.wraps(find)
    def look(job: _Job) -> Any:
        try:
            return job.changes.known[find, job.part]
        except KeyError:
            pass
        found = job.changes.known[find, job.part] = find(job)
        return found

    return look


def once_for_all(find: Callable[[_Job], _Found]) -> Callable[[_Job], _Found]:
    """Do the same for what is the same for all parts of a job."""

    @functools.wraps(find)
    def look(job: _Job) -> Any:
        try:
            return job.changes.known[find]
        except KeyError:
            pass
        found = job.changes.known[find] = find(job)
        return found

    return look


def once_for_part(find: Callable[[_Job, *_More], _Found]) -> Callable[[_Job, *_More], _Found]:
    """Compute once for each state of a part; what is returned depends on the part and the further values alone."""

    @functools.wraps(find)
    def look(job: _Job, *more: *_More) -> Any:
        key, state = (find, job.part, more), job.state
        kept = job.memory.get(key)
        if kept is None or kept[0] != state:
            kept = job.memory[key] = (state, find(job, *more))
        return kept[1]

    return look
