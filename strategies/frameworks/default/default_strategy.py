"""The default strategy: a job of an unknown framework gets the devices it asks for and runs unchanged otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import plans
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import Job

__all__ = ["DefaultStrategy"]


class DefaultStrategy:
    """Serves every framework that has no strategy of its own."""

    framework = "default"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Leave the command alone."""

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Add nothing: it is not known how the ranks of this framework meet."""

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add the claims that were asked for."""
        plans.enforce(job, changes, self.framework)

    def validate(self, job: Job) -> Iterable[Finding]:  # noqa: ARG002  # the protocol's signature
        """Return no findings; the checks for every framework are made elsewhere."""
        return ()
