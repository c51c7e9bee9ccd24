"""What a shell's text runs: each command, whether it surely runs, and what becomes of the status with which it ends.

A container succeeds where its shell does, so a training whose status is lost fails unseen: the pod is complete, and
nothing starts it again. The rules are those of POSIX.1-2024, 2.8.2 Exit Status and 2.9 Shell Commands, and of bash for
`pipefail`. Only what certainly succeeds, such as `echo`, is said to hide a failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from muster.strategies.shell import trees
from muster.strategies.shell.shell_builtins import PROGRAMS
from muster.strategies.shell.word_parser import Unreadable

__all__ = ["BEHIND", "Choice", "Command", "Loss", "Place", "deciders", "names_in"]

_MAX_DEPTH = 60
_READS = r"(?P<empty>-[nvz]\s+[\"']?)?(?:\$[{(]?\s*(?P<name>[A-Za-z_]\w*)(?P<rest>:?[-+=])?|^(?P<program>hostname)\b)"
_BARE = r"[A-Za-z_]\w*"
_OF_PODS = r"PET_NODE_RANK|JOB_COMPLETION_INDEX|HOSTNAME"


class Loss(Enum):
    """How the status of a command is lost."""

    PIPE = "pipe"  # it is not the last command of a pipe, and the shell runs without `pipefail`
    OR = "or"  # what follows `||` succeeds
    NEXT = "next"  # the shell goes on, and the last command that it runs succeeds
    LEFT = "left"  # it runs in the background, and the shell ends without waiting for it


class Choice(Struct, eq=False):
    """A place where the shell chooses one of several ways.

    Attributes:
        names: variables, and programs such as `hostname`, that the choice depends on.
        ways: number of ways.
        left: the ways at whose end the shell ends.
    """

    names: frozenset[str]
    ways: int
    left: set[int] = field(default_factory=set)


BEHIND = -1
"""The way of what stands behind a choice in which the shell may have ended."""


class Command(Struct):
    """One program that a text runs.

    Attributes:
        words: its command line; `Loose` where one may be several.
        env: exported variables; None for one that cannot be read.
        assigned: variables of the shell that are not exported.
        certain: whether it runs exactly once.
        ways: the choices that decide whether it runs, each with its way.
        inner: whether its output is only taken as a word.
        stdin: the here-document that it reads; None for none.
        files: texts that the shell has written to files, by name.
        lost: how its status is lost, and the program whose status the shell has instead; None where it counts.
        wave: a number that it shares with those that run at the same time; 0 where it runs alone.
        torn: as of `SimpleCommand`, for a command without words.
    """

    words: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)
    assigned: Mapping[str, str | None] = field(default_factory=dict)
    certain: bool = True
    ways: tuple[tuple[Choice, int], ...] = ()
    inner: bool = False
    stdin: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    lost: tuple[Loss, str] | None = None
    wave: int = 0
    torn: tuple[int, str] | None = None


class Place(Struct, frozen=True):
    """Where a statement stands.

    Attributes:
        certain: whether it runs exactly once.
        failing: whether it only runs because another command failed.
        inner: whether its output is only taken as a word.
        depth: statements around it.
        ways: the choices around it that depend on variables.
        loss: how its status is lost, and the program whose status the shell has instead, "" for one without a plain
            name; None where it is, or may be, the status of the shell.
        caught: whether `set -e` ends the shell before anything follows.
        excused: whether `set -e` does not act here.
        unknown: whether nothing is said of its status: a condition, a loop, or a text that looks at statuses itself.
    """

    certain: bool = True
    failing: bool = False
    inner: bool = False
    depth: int = 0
    ways: tuple[tuple[Choice, int], ...] = ()
    loss: tuple[Loss, str] | None = None
    caught: bool = False
    excused: bool = False
    unknown: bool = False

    @property
    def lost(self) -> tuple[Loss, str] | None:
        """How the status is lost, and what the shell has instead; None where it counts."""
        return None if self.caught or self.unknown else self.loss

    def asked(self) -> Place:
        """Return the place of a condition, or of what nothing can be said."""
        return replace(self, unknown=True)

    def deeper(
        self, *, certain: bool = True, failing: bool = False, inner: bool = False, way: tuple[Choice, int] | None = None
    ) -> Place:
        """Return the place of a statement inside this one.

        Raises:
            Unreadable: it is too deep.
        """
        if self.depth >= _MAX_DEPTH:
            raise Unreadable("the shell's text nests deeper than Muster reads")
        return replace(
            self,
            certain=self.certain and certain,
            failing=self.failing or failing,
            inner=self.inner or inner,
            depth=self.depth + 1,
            ways=self.ways if way is None or not way[0].names else (*self.ways, way),
        )

    def before(self, last: trees.AndOr | None, *, errexit: bool) -> Place:
        """Return the place of a statement of a list whose end `last` decides; None where it is the last itself."""
        by = None if self.unknown or self.loss is not None or last is None else _success(last)
        return self if by is None else replace(self, loss=(Loss.NEXT, by), caught=errexit and not self.excused)

    def chained(self, statement: trees.AndOr) -> list[tuple[str, trees.Pipeline, Place]]:
        """Return the pipelines of `a && b || c`, each with the sign in front of it and its place."""
        found: list[tuple[str, trees.Pipeline, Place]] = []
        place, handler = self, None
        for sign, pipeline in reversed(statement.items):
            found.append((sign, pipeline, place))
            handler = pipeline if sign == "||" else handler
            place = self if self.unknown else self._handled(handler)
        return found[::-1]

    def _handled(self, handler: trees.Pipeline | None) -> Place:
        """Return the place of a pipeline that is not the last, by what runs when it fails."""
        by = None if handler is None else _succeeds(handler)
        if by is None and handler is not None and _ends(handler.parts[-1]):
            return self.asked()
        loss = self.loss if by is None else (Loss.OR, by)
        return replace(self, loss=loss, caught=False, excused=True)

    def piped(self, last: trees.Statement) -> Place:
        """Return the place of a part of a pipe, without `pipefail`, that ends with another."""
        by = trees.name_of(last)
        return self if self.unknown else replace(self, loss=(Loss.PIPE, by), caught=False, excused=True)


def deciders(script: trees.Script) -> list[trees.AndOr | None]:
    """Return for each statement of a list the one behind it that decides how the list ends: an `exit`, or the last."""
    found: list[trees.AndOr | None] = [None]
    for statement in reversed(script[1:]):
        leaves = len(statement.items) == 1 and trees.name_of(statement.items[0][1].parts[-1]) in PROGRAMS["leaving"]
        found.append(statement if found[-1] is None or leaves else found[-1])
    return found[::-1]


def names_in(test: str) -> frozenset[str]:
    """Return the variables whose values the text of a test depends on.

    Left out are those of which it only asks whether they are set, and those with a default that no pod has.
    """
    bare = set(re.findall(_BARE, test)) if test.startswith("((") else set()
    for found in re.finditer(_READS, test):
        name = found["name"] or found["program"]
        if not found["empty"] and (not found["rest"] or re.fullmatch(_OF_PODS, name)):
            bare.add(name)
    return frozenset(bare)


def _ends(statement: trees.Statement) -> bool:
    """Whether a statement ends with `exit` or `return`."""
    if isinstance(statement, trees.Group):
        return bool(statement.body) and _ends(statement.body[-1].items[-1][1].parts[-1])
    return trees.name_of(statement) in PROGRAMS["leaving"]


def _success(statement: trees.AndOr) -> str | None:
    """Return what ends a statement with success; None where it may fail."""
    sign, last = statement.items[-1]
    return None if statement.background or sign == "&&" else _succeeds(last)


def _succeeds(pipeline: trees.Pipeline) -> str | None:
    last = pipeline.parts[-1]
    if pipeline.negated:
        return None
    if isinstance(last, trees.Group):
        return _success(last.body[-1]) if last.body else None
    name, rest = trees.name_of(last), trees.plain_words(last)[1:]
    if name in PROGRAMS["leaving"]:
        return f"{name} 0" if rest == ["0"] else None
    return name if name in PROGRAMS["succeeding"] or (name == "wait" and not rest) else None
