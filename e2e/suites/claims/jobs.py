"""Jobs that ask Muster for devices by a profile, and what their pods hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.suites.pods import trainings
from e2e.suites.support import devices as claims
from e2e.suites.support import documents
from e2e.suites.support.devices import Devices
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = [
    "CONTROLLERS",
    "GATE",
    "PROFILE",
    "SEATS",
    "Turns",
    "gated",
    "held",
    "in_turn",
    "pods",
    "runtime",
    "sampler",
    "started",
    "trainer",
]

PROFILE = "muster.dev/claim-profile"
GATE = "muster.dev/seat"
SEATS = "muster.dev/seats"
CONTROLLERS: Mapping[str, Any] = {
    "enabled": True,
    "grace": 2,
    "resync": 5,
    "endedPods": 2,
    "lease": {"duration": 4, "deadline": 3, "retry": 0.5},
}
"""Muster's controllers, switched on, and quick to be elected and to tidy up."""
_JOBSET = "jobset.sigs.k8s.io/jobset-name"


def runtime(devices: Devices, **more: Any) -> dict[str, Any]:
    """A runtime `torch` whose pods stay; `more` as of `documents.training_runtime`."""
    image = devices.image or documents.IMAGE
    return documents.training_runtime(
        "torch", "torch", image=image, command=claims.STAYS, fake=not devices.real, **more
    )


def trainer(name: str, profile: str, *, nodes: int = 1, runtime: str = "torch", **more: Any) -> dict[str, Any]:
    """A TrainJob that asks for a profile."""
    asked = {"annotations": {PROFILE: profile}, "trainer": {"numNodes": nodes}}
    return documents.trainjob(name, runtime, **{**asked, **more})


def sampler(devices: Devices, name: str, profile: str, *, pods: int = 1) -> dict[str, Any]:
    """A JobSet of its own whose pods stay, and which asks for a profile."""
    image = devices.image or documents.IMAGE
    return documents.jobset(
        name, nodes=pods, image=image, command=claims.STAYS, fake=not devices.real, annotations={PROFILE: profile}
    )


def started(space: Space, *applied: Mapping[str, Any]) -> None:
    """Apply runtimes and TrainJobs of theirs; Trainer has to know the first before the second."""
    runtimes = [each for each in applied if each["kind"] == "TrainingRuntime"]
    if runtimes:
        space.apply(*runtimes).expect()
    for job in (each for each in applied if each["kind"] != "TrainingRuntime"):
        trainings.known(space, job).expect()
        space.apply(job).expect()


def pods(space: Space, job: str, count: int = 1, seconds: float = 60) -> list[str]:
    """Wait for the pods of a job to be there; return the names of those that have not ended, in their order."""

    def look() -> list[str]:
        found = [each["metadata"]["name"] for each in space.pods(f"{_JOBSET}={job}") if _is_alive(each)]
        assert len(found) == count, f"{job} has the pods {found}; {[each.get('message') for each in space.events()]}"
        return sorted(found)

    return until(f"{count} pods of {space.name}/{job}", look, seconds)


def held(space: Space, job: str, count: int = 1) -> list[str]:
    """Wait until the pods of a job run; return the devices of all of them, as `pool/device`."""
    return [device for name in pods(space, job, count) for device in claims.held(space, name)]


def gated(space: Space, job: str) -> str:
    """Wait until an Event says that a job's pod waits for a seat, and return its message."""
    (name,) = pods(space, job)

    def look() -> str:
        pod = space.get("pods", name)
        assert pod is not None, "the pod does not exist"
        assert [each["name"] for each in pod["spec"].get("schedulingGates") or ()] == [GATE], "it has no gate"
        told = [str(each["message"]) for each in space.events() if each["involvedObject"]["name"] == name]
        return next(each for each in told if "seat" in each)

    return until(f"{space.name}/{name} to be told why it waits", look)


@dataclass(frozen=True, slots=True)
class Turns:
    """How jobs took turns.

    Attributes:
        most: pods that ran at the same time.
        first: seconds from the creation of the jobs until as many ran as may.
        next: mean seconds from the end of a pod until another ran in its place.
    """

    most: int
    first: float
    next: float


def in_turn(space: Space, devices: Devices, profile: str, count: int, limit: int) -> Turns:
    """Create so many jobs of one pod each, and end them one by one until all have run."""
    begun = time.monotonic()
    space.apply(*(sampler(devices, f"{profile}-{number}", profile) for number in range(count))).expect()
    inside = _running(space, profile, limit)
    first, most, ever, waited = time.monotonic() - begun, len(inside), set(inside), []
    while len(ever) < count:
        leaves = inside.pop()
        claims.end(space, leaves)
        ended = time.monotonic()
        inside = _running(space, profile, limit)
        waited.append(time.monotonic() - ended)
        most, ever = max(most, len(inside)), ever | set(inside)
    for name in inside:
        claims.end(space, name)
    return Turns(most, first, sum(waited) / len(waited))


def _running(space: Space, profile: str, count: int) -> list[str]:
    """Wait until so many pods of a profile run, or more."""

    def look() -> list[str]:
        pods = [
            each for each in space.pods(f"muster.dev/profile={profile}") if each["status"].get("phase") == "Running"
        ]
        found = sorted(each["metadata"]["name"] for each in pods if "deletionTimestamp" not in each["metadata"])
        assert len(found) >= count, f"{found} run"
        return found

    return until(f"{count} pods of profile {profile} to run", look, 60)


def _is_alive(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
