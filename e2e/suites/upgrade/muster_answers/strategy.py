"""A strategy that answers with the version of its own distribution, and so differently after an upgrade.

Each version does all kinds of changes: it replaces the command of the TrainJob, and on the JobSet it adds an env,
overwrites one that Trainer applies, and sets what nobody set.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable

from muster.strategies import Changes, Finding, Job

__all__ = ["AnswerStrategy"]

_WHY = {"rule": "answers/version", "reason": "this is how this version answers"}


class AnswerStrategy:
    """Serves `trainer.kubeflow.org/framework: answers`."""

    framework = "answers"
    version = importlib.metadata.version("muster-answers")

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Let a TrainJob run this version's launcher."""
        if job.kind == "TrainJob":
            launcher = [f"launch-{self.version}", "train.py"]
            changes.set(("spec", "trainer", "command"), launcher, **_WHY)

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Write this version's env on a JobSet."""
        place = job.container
        if job.kind != "JobSet" or place is None:
            return
        names = [entry.name for entry in place.container.env]
        rank = (*place.path, "env", names.index("PET_NPROC_PER_NODE"), "value")
        changes.set(rank, f"{int(self.version) + 1}", **_WHY)
        changes.append((*place.path, "env"), {"name": f"ANSWER_{self.version}", "value": "yes"}, **_WHY)
        changes.set((*place.path, "workingDir"), f"/{self.version}", **_WHY)

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add nothing."""

    def validate(self, job: Job) -> Iterable[Finding]:  # noqa: ARG002  # the protocol's
        """Find nothing wrong."""
        return ()
