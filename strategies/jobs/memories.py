"""Memories: what is found out about a job is found once for each state of its document.

A decision asks for the container, the launch and the topology of a job some hundred times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from muster.strategies.changes.changes import Changes

__all__ = ["remembered", "remembered_for_all"]


class _Subject(Protocol):
    """A job, or the view of one of its parts: the part, and the changes, whose `known` each change empties."""

    @property
    def changes(self) -> Changes: ...

    @property
    def part(self) -> int: ...


_Job = TypeVar("_Job", bound=_Subject)
_Found = TypeVar("_Found")


def remembered(find: Callable[[_Job], _Found]) -> Callable[[_Job], _Found]:
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


def remembered_for_all(find: Callable[[_Job], _Found]) -> Callable[[_Job], _Found]:
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
