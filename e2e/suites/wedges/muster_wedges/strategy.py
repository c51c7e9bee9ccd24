"""The same mutations as a strategy of Muster's: recorded, remembered, and so restored at every update."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from muster.strategies import Changes, Finding, Job

from . import mutations

__all__ = ["WedgeStrategy"]

_WHY = {"rule": "wedges/row", "reason": "the JobSet's annotation asks for it"}


class WedgeStrategy:
    """Serves `trainer.kubeflow.org/framework: wedges`."""

    framework = "wedges"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Make the mutation that the JobSet's annotation names, or what no strategy may do."""
        row = job.annotation(mutations.ROW)
        if job.kind != "JobSet" or row is None:
            return
        if row[0] == "write without a record":
            _container(changes.document)["command"] = ["sleep"]
        elif row[0] == "change more than can be remembered":
            env = (*_place(), "env")
            for number in range(300):
                changes.append(env, {"name": f"E{number}", "value": ""}, **_WHY)
        else:
            self._make(copy.deepcopy(dict(job.document)), changes)

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Add nothing."""

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add nothing."""

    def validate(self, job: Job) -> Iterable[Finding]:  # noqa: ARG002  # the protocol's
        """Find nothing wrong."""
        return ()

    def _make(self, jobset: dict[str, Any], changes: Changes) -> None:
        for verb, path, value in mutations.operations(jobset):
            if verb == "remove":
                changes.remove(path, **_WHY)
            elif verb == "append":
                changes.append(path, value, **_WHY)
            else:
                changes.set(path, value, **_WHY)


def _place() -> tuple[str | int, ...]:
    return ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0)


def _container(document: Any) -> Any:
    for part in _place():
        document = document[part]
    return document
