"""Commands: what a shell's text runs, and the choices that decide whether it does; `shells` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.strategies.launches.statuses import Loss

__all__ = ["BEHIND", "Choice", "Command"]


@dataclass(slots=True, eq=False)
class Choice:
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


@dataclass(slots=True)
class Command:
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
        around: the command of another shell, or of a wrapper, whose text it is in.
        wave: a number that it shares with those that run at the same time; 0 where it runs alone.
        torn: as of `trees.Command`, for a command without words.
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
    around: Command | None = None
    wave: int = 0
    torn: tuple[int, str] | None = None

    @property
    def all_lost(self) -> tuple[Loss, str] | None:
        """How its own status is lost, or that of a command around it."""
        return self.lost or (self.around.all_lost if self.around is not None else None)

    @property
    def all_wave(self) -> int:
        """Its own number, or that of a command around it."""
        return self.wave or (self.around.all_wave if self.around is not None else 0)
