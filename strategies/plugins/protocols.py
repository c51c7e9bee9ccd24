"""What a strategy is.

A framework is supported by one object with this shape. Upstream's proposals name the same three things (`Name`,
`EnforceCommand`, `Validate`: kubeflow/trainer#3263); rendezvous and claims are apart here, because they are written on
another object (the JobSet) and at another time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from strategies.changes.changes import Changes
from strategies.documents.findings import Finding
from strategies.jobs.jobs import Job

__all__ = ["FrameworkStrategy"]


@runtime_checkable
class FrameworkStrategy(Protocol):
    """Makes the jobs of one framework run as meant.

    All methods are pure: they read `job`, record on `changes`, and do no I/O. They are called for a TrainJob and later
    for the JobSet that Trainer makes from it; only at CREATE, since most of what they touch is immutable afterwards.
    Whatever was enforced already, by an earlier call or by the user, must lead to no further change.

    Attributes:
        framework: value of the label `trainer.kubeflow.org/framework` that chooses this strategy.
        version: of the strategy's answers; recorded on every object, so that an upgrade can be told from the past.
    """

    framework: str
    version: str

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Make the launch span the processes that were asked for; rewrite only what is understood."""

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Let all ranks meet: env, endpoint, process count."""

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Give each role the devices it claimed."""

    def validate(self, job: Job) -> Iterable[Finding]:
        """Say all that is wrong with the job, as it will be stored."""
