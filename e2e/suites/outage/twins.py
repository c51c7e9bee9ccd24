"""A twin: a spare Muster that follows the real API server through a `Line`.

Cutting the installed Muster off from its API server would take a firewall; a second process needs only another address
in its kubeconfig.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib import parse

from e2e.suites.outage.lines import Line
from e2e.suites.support import documents, metrics, spares
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until

__all__ = ["Stalled", "Twin"]


class Twin(Spare):
    """A Muster behind a line; it is ready when the context is entered.

    Args:
        kubectl: kubectl for the cluster that it follows.
        folder: a folder for its files.
    """

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        config = spares.kubeconfig(kubectl)
        server = parse.urlsplit(config["clusters"][0]["cluster"]["server"])
        self.line = Line(server.hostname or "", server.port or 443)
        # Behind the line the server has another address, which its certificate need not name.
        config["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{self.line.port}",
            "insecure-skip-tls-verify": True,
        }
        super().__init__(folder, config)

    def __enter__(self) -> Self:
        """Start it, and wait until it is ready."""
        super().__enter__()
        try:
            self.wait_ready()
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the line and the process."""
        self.line.close()
        super().__exit__()

    def age(self, kind: str) -> float:
        """Return the seconds since the API server last said anything about a kind, as the metric says."""
        return metrics.total(self.samples(), "muster_cluster_cache_age_seconds", kind=kind)


@dataclass(frozen=True, slots=True)
class Stalled:
    """A twin whose watches stalled at some moment, when runtime `old` was changed from torch to trl.

    Muster notices a silent watch after more than a minute, so it begins with the first test; the last test checks it.

    Attributes:
        twin: the Muster.
        namespace: the namespace of the runtime.
        since: the moment.
    """

    twin: Twin
    namespace: str
    since: datetime.datetime

    @classmethod
    def begin(cls, twin: Twin, space: Space) -> Stalled:
        """Let the twin see a runtime, stall its watches, and change the runtime."""
        space.apply(documents.training_runtime("old", "torch")).expect()
        begun = cls(twin, space.name, datetime.datetime.now(datetime.UTC))
        until("the twin to hold the runtime", begun._is_held)
        twin.line.stall()
        space.apply(documents.training_runtime("old", "trl")).expect()
        assert begun.goes_by("torch"), "the line did not stall"
        return begun

    def seconds(self) -> float:
        """Return for how long the watches have stalled."""
        return (datetime.datetime.now(datetime.UTC) - self.since).total_seconds()

    def _is_held(self) -> bool:
        """Whether the twin uses the first runtime without fetching it."""
        before = self._fetches()
        return self.goes_by("torch") and self._fetches() == before

    def _fetches(self) -> float:
        return metrics.total(self.twin.samples(), "muster_cluster_fetches_total")

    def goes_by(self, framework: str) -> bool:
        """Whether the twin answers by this framework."""
        return self.twin.ask(documents.trainjob("job", "old"), self.namespace).strategy == framework
