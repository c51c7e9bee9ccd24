"""Authors: which words of a server's command line the job wrote, and which its runtime.

A TrainJob that writes `command` alone keeps the args of its runtime, which stand behind its own words and win in vLLM's
parser; one that writes `args` alone puts them behind the runtime's command. What the job writes is meant to win.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from muster.strategies.frameworks.vllm.serve_arguments import Given
from muster.strategies.frameworks.vllm.vllm_servers import Form, Server
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches.sites import Site

__all__ = ["Authors", "settle"]


class Authors:
    """Who wrote which word of the arguments of a server, which are the last words of its command line.

    Attributes:
        mixed: whether both wrote some.
    """

    __slots__ = ("_boundary", "_own_args", "_own_command", "mixed")

    def __init__(self, site: Site, job: Job, server: Server) -> None:
        self._boundary = len(site.command) - (len(site.argv) - len(server.args))
        self._own_command = site.own_command
        self._own_args = job.kind == "JobSet" or job.trainer.args is not None
        self.mixed = self._own_command != self._own_args and bool(site.command) and bool(site.args)

    def owns(self, index: int) -> bool:
        """Whether the job wrote argument `index`."""
        return self._own_command if index < self._boundary else self._own_args

    def judged(self, every: list[Given]) -> list[Given]:
        """Return those of several places of one flag that nobody overrules: the job's, where it has any."""
        return [given for given in every if self.owns(given.index)] or every if self.mixed else every


def settle(site: Site, job: Job, server: Server) -> tuple[Site, list[str]]:
    """Leave out what the runtime's args give against the job's own command, and return what that is."""
    authors = Authors(site, job, server)
    if not authors.mixed or not site.own_command or job.kind == "JobSet":
        return site, []
    dropped = list(_overruled(server, authors))
    if not dropped:
        return site, []
    gone = {index for given in dropped for index in range(given.index, given.end)}
    offset = len(site.argv) - len(server.args) - len(site.command)
    kept = tuple(word for index, word in enumerate(site.args) if index - offset not in gone)
    return replace(site, args=kept), [given.name for given in dropped]


def _overruled(server: Server, authors: Authors) -> Iterator[Given]:
    for name, every in server.parsed.given.items():
        own = [given for given in every if authors.owns(given.index)]
        if own and name != "middleware":
            yield from (given for given in every if not authors.owns(given.index))
    if server.form is Form.SERVE and server.model is not None:
        words = [index for index, _ in server.parsed.positionals]
        mine = any(authors.owns(index) for index in words)
        yield from (Given("the model", index, index + 1, "") for index in words if mine and not authors.owns(index))
