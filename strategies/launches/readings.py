"""Readings: every launch that a command line makes, also through wrappers and a shell's text.

A strategy rewrites only the bare launch of a site (`Site.launch`). What it says about a job is judged by the reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strategies.launches import launches
from strategies.launches.launches import Launch, Launcher

__all__ = ["Reading", "read"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a command line starts.

    Attributes:
        launches: the launches in the order in which they run; empty where none was recognised.
        unread: what could not be read, each as a clause: `the text holds a here-document`. Where it is not empty, more
            may run than `launches` names.
    """

    launches: tuple[Launch, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def only(self) -> Launch | None:
        """The launch, where exactly one runs, for certain, and everything was read; else None."""
        if self.unread or len(self.launches) != 1 or not self.launches[0].certain:
            return None
        return self.launches[0]

    @property
    def training(self) -> Launch | None:
        """The launch of the training, where all was read: the last one, since what runs before it prepares it."""
        return self.launches[-1] if self.launches and not self.unread else None


def read(argv: Sequence[str]) -> Reading:
    """Read a command line (`command` followed by `args`)."""
    launch = launches.parse(argv)
    if launch.launcher in (Launcher.SHELL, Launcher.OTHER):
        return Reading(unread=("the program is not one that Muster reads",))
    return Reading() if launch.launcher is Launcher.NONE else Reading((launch,))
