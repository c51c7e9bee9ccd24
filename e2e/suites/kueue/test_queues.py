"""Jobs of a queue are corrected like any other, wait for their quota, and keep what both wrote."""

from __future__ import annotations

from e2e.suites.kueue import kueues
from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.validation import jobs

QUEUED = {"kueue.x-k8s.io/queue-name": "queue"}
QUOTA = {"nvidia.com/gpu": 2, "cpu": "100", "memory": "1Ti"}


def test_a_queued_job_is_corrected_and_waits_for_the_job_before_it(kueue: Kubectl, space: Space) -> None:
    kueues.queue(kueue, space.name, QUOTA)
    for name in ("first", "second"):
        space.apply(queued(name)).expect()

    admitted(space, "first")
    kueues.workload(kueue, space.name, "second")
    held = space.trainjob("second") or {}
    assert held["spec"]["suspend"] is True
    assert (space.jobset("second") or {"spec": {"suspend": True}})["spec"]["suspend"] is True
    for name in ("first", "second"):
        assert (space.trainjob(name) or {})["spec"]["trainer"]["command"] == jobs.MENDED

    space.delete("trainjob", "first").expect()
    admitted(space, "second")
    assert (space.trainjob("second") or {})["spec"]["trainer"]["command"] == jobs.MENDED


def test_the_jobset_of_an_admitted_job_has_what_muster_and_kueue_wrote(kueue: Kubectl, space: Space) -> None:
    kueues.queue(kueue, space.name, QUOTA)
    space.apply(queued("job")).expect()

    admitted(space, "job")

    def running() -> dict[str, object]:
        found = space.jobset("job") or {}
        return found if found and not found["spec"].get("suspend") else {}

    jobset = waits.until("the JobSet to go on", running, 60)
    (container,) = jobset["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == jobs.MENDED
    assert any(each["name"] == "PET_NNODES" for each in container["env"])


def queued(name: str) -> dict[str, object]:
    """Return a job of two GPUs in the queue, which Kueue and not its author suspends."""
    job = jobs.sft(name, labels=QUEUED)
    del job["spec"]["suspend"]
    return job


def admitted(space: Space, name: str) -> None:
    """Wait until Kueue lets a job begin."""

    def look() -> bool:
        found = space.trainjob(name) or {}
        return bool(found) and not found["spec"].get("suspend")

    waits.until(f"{name} to be admitted", look, 60)
