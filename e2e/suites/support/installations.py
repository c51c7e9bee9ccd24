"""Muster as installed in the cluster under test, which tests stop, kill, reconfigure, replace and read.

Two ways to run it, one way to test it. `look` finds out which one a cluster has. All that is changed is put back when
its `with` block ends, also when a test fails in it; what changes the installation must not run beside other tests.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from e2e.suites.support.deployments import Deployed
from e2e.suites.support.hosts import Processes
from e2e.suites.support.kubectls import Kubectl

__all__ = ["Installation", "look"]


class Installation(Protocol):
    """Muster, wherever it runs."""

    def stop(self) -> None:
        """End it in order, and wait until nothing answers at its address."""

    def kill(self, *, for_good: bool = False) -> None:
        """Kill it, as a crash would, and wait until that process has ended.

        Args:
            for_good: a Deployment, too, starts no other one until `start`.
        """

    def start(self) -> None:
        """Start it, and wait until it answers the API server; nothing happens when it runs."""

    def restart(self) -> None:
        """Stop and start."""

    def wait_ready(self, seconds: float = 60) -> None:
        """Wait until it answers the API server."""

    def configure(self, changes: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Run it with further keys merged into its configuration file; afterwards as before."""

    def reloaded(self, changes: Mapping[str, Any]) -> AbstractContextManager[None]:
        """As `configure`, for keys that take effect without a restart; it does not wait until they do.

        Nobody else is disturbed: what the keys are about must be the test's own.
        """

    def impostor(self, script: Path, environment: Mapping[str, str] | None = None) -> AbstractContextManager[None]:
        """Serve `script` in its place, at its address and with its certificate; then Muster again.

        Args:
            script: a Python file that needs the standard library only; it serves HTTPS with what it finds in the env
                `MUSTER_HOST`, `MUSTER_PORT`, `MUSTER_CERT` and `MUSTER_KEY` (files).
            environment: further env for it.
        """

    def plugin(self, folder: Path) -> AbstractContextManager[None]:
        """Run it with `folder` on its import path (a package and its `*.dist-info`); then without."""

    def log(self, since: datetime.datetime | None = None) -> list[str]:
        """Return the lines of its log, all or those since a moment (with a time zone)."""

    def audit(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return its audit records, oldest first, all or those about one namespace."""

    def memory(self) -> int:
        """Return the resident memory of its process, in bytes; of the largest one of several.

        Skips the test where it cannot be read.
        """

    def restart_api_server(self) -> None:
        """Restart the API server and wait until it is ready; skips the test where the cluster has no way to do it."""


def look(kubectl: Kubectl) -> Installation:
    """Return how Muster runs in this cluster.

    Raises:
        AssertionError: it does not, as far as can be seen.
    """
    state, tier = os.environ.get("MUSTER_E2E_STATE"), os.environ.get("MUSTER_E2E_TIER")
    if state and tier == "control-plane":
        return Processes(kubectl, Path(state))
    if kubectl.get("deployment", "muster", "muster-system") is not None:
        return Deployed(kubectl)
    raise AssertionError(
        "Muster runs neither as Deployment muster-system/muster nor as a process of a cluster named by MUSTER_E2E_STATE"
    )
