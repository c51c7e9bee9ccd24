"""Jobs to which Muster only added live without it: that is why it adds wherever it can."""

from __future__ import annotations

import pytest

from e2e.suites.outage import jobs, outages
from e2e.suites.support import documents, thorough
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space

TORCH = documents.training_runtime("rt", nodes=2, command=["torchrun", "train.py"])
TRL = documents.training_runtime("rt", "trl", nodes=2, command=["torchrun", "-m", "trl.scripts.sft"])
JOBS = {
    "torch": (TORCH, documents.trainjob("job", "rt", trainer={"numProcPerNode": 1})),
    "torch-without-trainer": (TORCH, documents.trainjob("job", "rt")),
    # The command is overwritten on the TrainJob alone, from which Trainer then makes the JobSet: nothing to restore.
    "trl": (TRL, documents.trainjob("job", "rt", trainer={"command": ["trl", "sft"], "args": jobs.TRL_ARGS})),
}


@pytest.mark.parametrize("kind", thorough.but("trl", of=JOBS))
def test_a_job_is_suspended_resumed_and_deleted_while_muster_is_dead(
    space: Space, muster: Installation, kind: str
) -> None:
    runtime, job = JOBS[kind]
    jobs.submit(space, runtime, job)
    before = space.wait_jobset("job")
    assert jobs.is_added_to(before)
    jobs.wait_running(space, "job", pods=2)
    outages.die(muster)

    jobs.suspend(space, "job")
    jobs.wait_suspended(space, "job")
    space.wait_trainjob("job", "Suspended")
    jobs.resume(space, "job")
    jobs.wait_running(space, "job", pods=2)

    after = space.wait_jobset("job")
    assert jobs.container(after) == jobs.container(before)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert jobs.refusals(space, "job") == []
    space.delete(TRAINJOBS, "job").expect()
    space.wait_gone(TRAINJOBS, "job")
    space.wait_gone(JOBSETS, "job")


@pytest.mark.thorough
def test_a_job_made_suspended_starts_while_muster_is_dead_with_all_that_was_added(
    space: Space, muster: Installation
) -> None:
    held = documents.trainjob("job", "rt", trainer={}, suspend=True)
    jobs.submit(space, TORCH, held)
    space.wait_jobset("job")
    outages.die(muster)

    jobs.resume(space, "job")
    jobs.wait_running(space, "job", pods=2)

    for pod in space.pods():
        names = {each["name"] for each in pod["spec"]["containers"][0]["env"]}
        assert {"MASTER_ADDR", "MASTER_PORT", "PET_NNODES"} <= names
