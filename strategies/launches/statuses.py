"""Statuses: whether a command that fails makes its shell fail, or whether something else decides how the shell ends.

A container succeeds where its shell does, so a training whose status is lost fails unseen: the pod is complete, and
nothing starts it again. The rules are those of POSIX.1-2024, 2.8.2 Exit Status and 2.9 Shell Commands, and of bash for
`pipefail`. Only what certainly succeeds, such as `echo`, is said to hide a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from muster.strategies.launches import trees

__all__ = ["Follower", "Loss", "Status", "deciders", "followers", "reads_statuses"]

_SUCCEEDING = frozenset({"echo", "printf", "true", ":", "date", "sleep", "sync", "nvidia-smi", "free", "uptime", "pwd"})
_LEAVING = frozenset({"exit", "return"})
_READING = ("$?", "PIPESTATUS", "trap ", "${?")


class Loss(Enum):
    """How the status of a command is lost."""

    PIPE = "pipe"
    """It is not the last command of a pipe, and the shell runs without `pipefail`."""
    OR = "or"
    """What follows `||` succeeds."""
    NEXT = "next"
    """The shell goes on, and the last command that it runs succeeds."""
    LEFT = "left"
    """It runs in the background, and the shell ends without waiting for it."""


@dataclass(frozen=True, slots=True)
class Status:
    """What becomes of the status of a command.

    Attributes:
        loss: how it is lost; None where it is, or may be, the status of the shell.
        by: the program whose status the shell has instead; "" where it has no plain name.
        caught: whether `set -e` ends the shell before anything follows.
        excused: whether `set -e` does not act here.
        unknown: whether nothing can be said: a condition, a loop, or a text that looks at statuses itself.
    """

    loss: Loss | None = None
    by: str = ""
    caught: bool = False
    excused: bool = False
    unknown: bool = False

    @property
    def lost(self) -> tuple[Loss, str] | None:
        """How the status is lost, and what the shell has instead; None where it counts."""
        return (self.loss, self.by) if self.loss is not None and not self.caught and not self.unknown else None

    def before(self, last: trees.AndOr | None, *, errexit: bool) -> Status:
        """Return the status of a statement of a list whose end `last` decides; None where it is the last itself."""
        if self.unknown or self.loss is not None or last is None:
            return self
        by = _success(last)
        return self if by is None else Status(Loss.NEXT, by, errexit and not self.excused, self.excused)

    def within(self, follower: Follower) -> Status:
        """Return the status of a pipeline of `a && b || c`, by what follows it there."""
        if self.unknown or not follower.any:
            return self
        if follower.handler is None:
            return replace(self, excused=True, caught=False)
        by = _succeeds(follower.handler)
        if by is not None:
            return Status(Loss.OR, by, excused=True)
        ends = _ends(follower.handler.parts[-1])
        return Status(unknown=True) if ends else replace(self, excused=True, caught=False)

    def piped(self, last: trees.Statement | None, *, pipefail: bool) -> Status:
        """Return the status of a part of a pipe that ends with `last`; None where it is the last itself."""
        if self.unknown or last is None or pipefail:
            return self
        return Status(Loss.PIPE, _name(last), excused=True)


@dataclass(frozen=True, slots=True)
class Follower:
    """What follows a pipeline in `a && b || c`.

    Attributes:
        any: whether anything follows.
        handler: what runs when the pipeline fails; None for nothing.
    """

    any: bool = False
    handler: trees.Pipeline | None = None


def followers(items: Sequence[tuple[str, trees.Pipeline]]) -> list[Follower]:
    """Return for each pipeline of `a && b || c` what follows it."""
    found = [Follower()]
    for sign, pipeline in reversed(items[1:]):
        found.append(Follower(any=True, handler=pipeline if sign == "||" else found[-1].handler))
    return found[::-1]


def deciders(statements: Sequence[trees.AndOr]) -> list[trees.AndOr | None]:
    """Return for each statement of a list the one behind it that decides how the list ends: an `exit`, or the last."""
    found: list[trees.AndOr | None] = [None]
    for statement in reversed(statements[1:]):
        found.append(statement if found[-1] is None or _leaves(statement) else found[-1])
    return found[::-1]


def reads_statuses(text: str) -> bool:
    """Tell whether a shell's text looks at the status of a command by itself, or may: nothing is said of it then."""
    return any(sign in text for sign in _READING)


def _name(statement: trees.Statement) -> str:
    return (statement.words[0].plain or "") if isinstance(statement, trees.Command) and statement.words else ""


def _leaves(statement: trees.AndOr) -> bool:
    return len(statement.items) == 1 and _name(statement.items[0][1].parts[-1]) in _LEAVING


def _ends(statement: trees.Statement) -> bool:
    """Whether a statement ends with `exit` or `return`."""
    if isinstance(statement, trees.Group):
        return bool(statement.body.statements) and _ends(statement.body.statements[-1].items[-1][1].parts[-1])
    return _name(statement) in _LEAVING


def _success(statement: trees.AndOr) -> str | None:
    """Return what ends a statement with success; None where it may fail."""
    sign, last = statement.items[-1]
    if statement.background or sign == "&&":
        return None
    return _succeeds(last)


def _succeeds(pipeline: trees.Pipeline) -> str | None:
    if pipeline.negated:
        return None
    last = pipeline.parts[-1]
    if isinstance(last, trees.Group):
        return _success(last.body.statements[-1]) if last.body.statements else None
    name = _name(last)
    if not isinstance(last, trees.Command) or not name:
        return None
    if name in _LEAVING:
        return f"{name} 0" if [word.plain for word in last.words[1:]] == ["0"] else None
    if name == "wait":
        return name if len(last.words) == 1 else None
    return name if name in _SUCCEEDING else None
