"""Scenes: all that there is of one job at one moment, read in one go.

A step of a job's life is done when TrainJob, JobSet, Jobs and pods agree about it; reading them together keeps a test
from comparing yesterday's JobSet with today's Job, and costs one kubectl instead of five.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from e2e.suites.support import spaces, stalls, waits
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space

__all__ = ["DENIED", "Scene", "container", "look", "pods_of", "wait"]

DENIED = "TrainJobResourcesCreationFailed"
"""Reason of the Warning event with which Trainer reports that it could not apply a JobSet."""

_KINDS = f"{TRAINJOBS},{JOBSETS},jobs.batch,pods,services,configmaps,events"
# These are not refusals: the machine stalled for longer than the API server waits, and Trainer tries again.
_LATE = ("context deadline exceeded", "Client.Timeout exceeded", "TLS handshake timeout", "request timed out")
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """A job with everything made from it.

    Attributes:
        name: the name of the job.
        trainjob: None when there is none.
        jobset: None when there is none.
        jobs, pods: made by the JobSet.
        others: ConfigMaps and Services of the job, `kind/name`.
        denials: messages of the events about a refused apply.
    """

    name: str
    trainjob: Document | None
    jobset: Document | None
    jobs: list[Document]
    pods: list[Document]
    others: list[str]
    denials: list[str]

    def is_suspended(self) -> bool:
        """Whether all agree that the job waits: no Job may start a pod, and no pod is left but those that succeeded."""
        return self._agree(suspend=True) and all(pod["status"].get("phase") == "Succeeded" for pod in self.pods)

    def is_released(self) -> bool:
        """Whether all agree that the job may run, and its pods are there; they may still wait for a node."""
        wanted = sum(pods_of(job) for job in self._unfinished())
        return self._agree(suspend=False) and len(self.pods) >= wanted

    def is_running(self) -> bool:
        """Whether the job may run, and every pod that it asks for is ready."""
        return self.is_released() and all(
            (job.get("status") or {}).get("ready", 0) == pods_of(job) for job in self._unfinished()
        )

    def is_gone(self) -> bool:
        """Whether nothing of the job is left."""
        return not (self.trainjob or self.jobset or self.jobs or self.pods or self.others)

    def conditions(self) -> dict[str, str]:
        """Return the TrainJob's conditions."""
        return spaces.conditions(self.trainjob or {})

    def __str__(self) -> str:
        states = [f"TrainJob {_suspend(self.trainjob)} {self.conditions()}", f"JobSet {_suspend(self.jobset)}"]
        states += [f"Job {job['metadata']['name']} {_suspend(job)} {job.get('status')}" for job in self.jobs]
        states += [f"Pod {pod['metadata']['name']} {pod['status'].get('phase')}" for pod in self.pods]
        return "\n".join([*states, *self.others, *self.denials])

    def _agree(self, *, suspend: bool) -> bool:
        if self.jobset is None or not self.jobs:
            return False
        owners = [self.jobset] if self.trainjob is None else [self.trainjob, self.jobset]
        told = self.conditions().get("Suspended", "False") == str(suspend) or self.trainjob is None
        return told and all(_suspend(each) is suspend for each in [*owners, *self._unfinished()])

    def _unfinished(self) -> list[Document]:
        return [job for job in self.jobs if spaces.conditions(job).get("Complete") != "True"]


def look(space: Space, name: str) -> Scene:
    """Read the scene of the job `name`."""
    every = space.all(_KINDS)
    named = {(each["kind"], each["metadata"]["name"]): each for each in every}
    return Scene(
        name,
        named.get(("TrainJob", name)),
        named.get(("JobSet", name)),
        [each for each in every if each["kind"] == "Job" and _is_of(each, name)],
        [each for each in every if each["kind"] == "Pod" and _is_of(each, name)],
        list(_others(every, name)),
        [each["message"] for each in every if _is_denial(each, name)],
    )


def wait(space: Space, name: str, state: str, seconds: float = 60) -> Scene:
    """Wait until the scene is in a state.

    Args:
        space: the namespace of the job.
        name: the name of the job.
        state: `suspended`, `released`, `running` or `gone`.
        seconds: the longest wait; the error then shows the scene.
    """

    def check() -> Scene:
        scene = look(space, name)
        assert getattr(scene, f"is_{state}")(), str(scene)
        return scene

    return waits.until(f"all of {space.name}/{name} to be {state}", check, seconds)


def container(jobset: Document, job: str = "node") -> Document:
    """Return the first container of a replicated job's pod template."""
    chosen = next(each for each in jobset["spec"]["replicatedJobs"] if each["name"] == job)
    found: Document = chosen["template"]["spec"]["template"]["spec"]["containers"][0]
    return found


def pods_of(job: Document) -> int:
    """Return how many pods a Job wants at once."""
    return int(job["spec"].get("parallelism", 1))


def _suspend(found: Document | None) -> bool | None:
    return None if found is None else bool(found["spec"].get("suspend"))


def _is_of(found: Document, name: str) -> bool:
    return (found["metadata"].get("labels") or {}).get(_JOBSET_LABEL) == name


def _others(every: list[Document], name: str) -> Iterator[str]:
    for each in every:
        owned = any(owner["name"] == name for owner in each["metadata"].get("ownerReferences") or ())
        if each["kind"] in ("ConfigMap", "Service") and owned:
            yield f"{each['kind']}/{each['metadata']['name']}"


def _is_denial(found: Document, name: str) -> bool:
    if found["kind"] != "Event" or found.get("reason") != DENIED or found["involvedObject"]["name"] != name:
        return False
    return not (stalls.lost(0.0) and any(words in found["message"] for words in _LATE))
