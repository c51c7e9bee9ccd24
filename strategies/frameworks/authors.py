"""Authors: which words of a program's arguments the job wrote, and which its runtime.

A TrainJob that writes `command` alone keeps the args of its runtime, which stand behind its own words and win in the
program's parser; one that writes `args` alone puts them behind the runtime's command. What the job writes is meant to
win.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.strategies.jobs.jobs import Job
from muster.strategies.launches.sites import Site

__all__ = ["Authors"]


class Authors:
    """Who wrote which word of a program's arguments, which are the last words of its command line.

    Attributes:
        offset: place of the first of them in the command line.
        own_args: whether the job wrote the args, and not its runtime.
        mixed: whether both wrote some words of the command line.
    """

    def __init__(self, site: Site, job: Job, args: Sequence[str]) -> None:
        self.offset = len(site.argv) - len(args)
        self.own_args = job.kind == "JobSet" or job.trainer.args is not None
        self.mixed = site.own_command != self.own_args and bool(site.command) and bool(site.args)
        self._own_command, self._boundary = site.own_command, len(site.command) - self.offset

    def owns(self, index: int) -> bool:
        """Whether the job wrote argument `index`."""
        return self._own_command if index < self._boundary else self.own_args
