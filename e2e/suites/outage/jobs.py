"""Questions of the outage tests about jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from e2e.suites.support.kubectls import Outcome
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

__all__ = [
    "TRL_ARGS",
    "applied",
    "command",
    "container",
    "env",
    "is_added_to",
    "is_suspended",
    "refusals",
    "resume",
    "runs",
    "submit",
    "suspend",
    "wait_ready",
    "wait_running",
    "wait_suspended",
]

_APPLIED = "muster.dev/applied"

TRL_ARGS = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "/out", "--use_cpu", "--bf16", "false"]
"""The arguments that a `trl sft` needs to be admitted on CPU."""


def container(jobset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training container of a JobSet."""
    jobs = {each["name"]: each for each in jobset["spec"]["replicatedJobs"]}
    pod = jobs["node"]["template"]["spec"]["template"]["spec"]
    return next(each for each in pod["containers"] if each["name"] == "node")


def command(jobset: Mapping[str, Any]) -> list[str]:
    """Return its command and arguments."""
    found = container(jobset)
    return [*(found.get("command") or ()), *(found.get("args") or ())]


def env(jobset: Mapping[str, Any]) -> dict[str, str]:
    """Return its plain variables."""
    return {each["name"]: each.get("value", "") for each in container(jobset).get("env") or ()}


def applied(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return Muster's memory on an object, empty when Muster has not changed it."""
    memory: dict[str, Any] = json.loads((found["metadata"].get("annotations") or {}).get(_APPLIED, "{}"))
    return memory


def is_added_to(jobset: Mapping[str, Any]) -> bool:
    """Whether a JobSet has what Muster adds."""
    return bool(applied(jobset)) and {"MASTER_ADDR", "MASTER_PORT"} <= env(jobset).keys()


def submit(space: Space, runtime: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Apply a runtime and a TrainJob.

    Trainer's own webhook reads runtimes from a cache, and refuses a job that comes within milliseconds of its runtime
    (v2.3.0); so a refusal of that kind is tried again, as a person would.
    """
    space.apply(runtime).expect()

    def answered() -> Outcome | None:
        answer = space.apply(job)
        return None if answer.refused_with("must be created before the TrainJob is created") else answer

    outcome = until("Trainer to know the runtime", answered, 10)
    assert outcome is not None
    outcome.expect()


def suspend(space: Space, name: str, *, kind: str = TRAINJOBS) -> None:
    """Suspend a job."""
    space.patch(kind, name, {"spec": {"suspend": True}}).expect()


def resume(space: Space, name: str, *, kind: str = TRAINJOBS) -> None:
    """Resume a job."""
    space.patch(kind, name, {"spec": {"suspend": False}}).expect()


def wait_suspended(space: Space, name: str, seconds: float = 30) -> None:
    """Wait until a job's JobSet is suspended and its pods are gone."""
    until(f"JobSet {name} to be suspended", lambda: is_suspended(space, name), seconds)
    until(f"the pods of {name} to be gone", lambda: not runs(space, name), seconds)


def wait_running(space: Space, name: str, pods: int = 1, seconds: float = 30) -> None:
    """Wait until a job's JobSet is resumed and its pods run."""
    until(f"JobSet {name} to be resumed", lambda: not is_suspended(space, name), seconds)
    until(f"{pods} pods of {name} to run", lambda: len(runs(space, name)) == pods, seconds)


def wait_ready(space: Space, name: str, seconds: float = 30) -> None:
    """Wait until the Job controller itself has seen all pods of a job be ready.

    Whoever has a JobSet made again must wait for this first: a Job that is deleted while a pod of it is on its way
    leaves the next Job of its name without pods for five minutes (kubernetes/kubernetes#131917, open in v1.36.3).
    """

    def ready() -> bool:
        found = space.all("jobs.batch", f"jobset.sigs.k8s.io/jobset-name={name}")
        return bool(found) and all(each["status"].get("ready") == each["spec"]["parallelism"] for each in found)

    until(f"the Jobs of {name} to have seen their pods", ready, seconds)


def runs(space: Space, name: str) -> list[str]:
    """Return the names of a job's pods that run."""
    pods = space.pods(f"jobset.sigs.k8s.io/jobset-name={name}")
    return [each["metadata"]["name"] for each in pods if each["status"].get("phase") == "Running"]


def is_suspended(space: Space, name: str) -> bool:
    """Whether a job's JobSet is suspended."""
    found = space.get(JOBSETS, name)
    assert found is not None, f"JobSet {name} does not exist"
    return bool(found["spec"].get("suspend"))


def refusals(space: Space, name: str) -> list[str]:
    """Return the messages that Trainer got when a job's objects were refused."""
    events = [each for each in space.events() if each.get("reason") == "TrainJobResourcesCreationFailed"]
    return [str(each.get("message")) for each in events if each["involvedObject"]["name"] == name]
