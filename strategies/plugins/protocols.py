"""The protocol of a strategy.

A framework is supported by one object with this shape. Upstream's proposal has three members (`Name`, `EnforceCommand`,
`Validate`: kubeflow/trainer#3263); rendezvous and claims are separate here, because they are written on another object
(the JobSet) and at another time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from muster.strategies.changes.changes import Changes
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import Job

__all__ = ["FrameworkStrategy"]


@runtime_checkable
class FrameworkStrategy(Protocol):
    """Makes the jobs of one framework run as meant.

    All methods are pure: they read `job`, record on `changes`, and do no I/O. They are called for a TrainJob and later
    for the JobSet that Trainer makes from it; only at CREATE, since most of what they touch is immutable afterwards.
    What an earlier call or the user already enforced must not be changed again. A JobSet whose work is in several
    replicated jobs is given part by part: `job.container` is that of the part, `job.world` are all that train together.

    Attributes:
        framework: value of the label `trainer.kubeflow.org/framework` that chooses this strategy.
        version: version of the strategy's answers; recorded on every object, so that the effect of an upgrade is seen.
    """

    framework: str
    version: str

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Make the launch start all processes that the job asks for; rewrite only a launch that is understood."""

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Set what all ranks need to meet: env, endpoint, process count."""

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add the claims that the pods of each replicated job asked for."""

    def validate(self, job: Job) -> Iterable[Finding]:
        """Return everything that is wrong with the job, as it will be stored."""
