"""Rows: a runtime and a job for each kind of mutation, such that the mutation has something to change."""

from __future__ import annotations

from typing import Any

from e2e.suites.lifecycle import lives
from e2e.suites.support import documents
from e2e.suites.support.spaces import Space
from e2e.suites.wedges.muster_wedges import mutations

__all__ = ["ADDITIONS", "NEVER_RUN", "OVERWRITES", "PLACED", "place", "submit"]

ADDITIONS = (
    "nothing",
    "append an env",
    "prepend an env",
    "add command and args",
    "add claims",
    "label pods and annotate the JobSet",
)
"""Mutations of what Trainer does not apply: they last, whoever makes them."""

OVERWRITES = tuple(row for row in mutations.ROWS if row not in ADDITIONS)
"""Mutations of what Trainer applies: each further apply undoes them, which JobSet refuses."""

NEVER_RUN = ("add claims", "swap a limit for a claim", "everything at once")
"""Their pods wait for devices that this cluster does not have."""

PLACED = {"metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}}, "spec": documents.FAKE}
"""What a queue writes into a pod template."""

_LAUNCH = {"command": ["torchrun", "train.py"], "args": ["--epochs", "1"]}
_GPU = {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}


def submit(space: Space, row: str, *, suspend: bool, by_runtime: bool = False, always: bool = False) -> None:
    """Store the job of a row.

    Args:
        space: the namespace.
        row: the mutation, told to whoever makes it by an annotation of the JobSet.
        suspend: whether the job waits first.
        by_runtime: whether the launch is the runtime's, else it is the TrainJob's.
        always: whether the impostor makes the mutation at UPDATE too.
    """
    launch: dict[str, Any] = {} if row == "add command and args" else _LAUNCH
    limits: dict[str, Any] = {} if row == "add claims" else {"resources": _GPU}
    container = {**limits, **(launch if by_runtime else {})}
    runtime = documents.training_runtime("wedges", "wedges", nodes=2, env={"OURS": "1"}, **container)
    template: dict[str, Any] = runtime["spec"]["template"]
    # Updates come to the webhook only of what Muster says it has changed.
    marks = {mutations.ROW: row, **({mutations.ALWAYS: "true", lives.APPLIED: "{}"} if always else {})}
    template["metadata"] = {"annotations": marks}
    if row != "label pods and annotate the JobSet":
        pod = template["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        pod["metadata"] = {"labels": {"team": "a"}}
    trainer: dict[str, Any] = {
        "env": [{"name": "MINE", "value": "1"}],
        "numProcPerNode": 1,
        **({} if by_runtime else launch),
    }
    lives.submit(space, runtime, documents.trainjob("life", "wedges", trainer=trainer, suspend=suspend))


def place(space: Space, *, suspend: bool) -> None:
    """Write a queue's placement into the job, and suspend or resume it."""
    job = {"name": "node", "template": {"spec": {"template": PLACED}}}
    runtime = {"template": {"spec": {"replicatedJobs": [job]}}}
    patch = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": runtime}
    lives.patch_runtime(space, "life", {"suspend": suspend, "runtimePatches": [patch]})
