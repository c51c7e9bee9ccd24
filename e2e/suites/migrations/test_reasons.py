"""Why `muster migrate` says that a member has no equivalent: what Trainer does where it is written all the same."""

from __future__ import annotations

import pytest

from e2e.suites.support import documents, waits
from e2e.suites.support.spaces import Space


@pytest.mark.thorough
def test_a_failed_trainjob_runs_again_when_the_time_to_live_of_its_jobset_is_over(space: Space) -> None:
    runtime = documents.training_runtime("short", "torch")
    template = runtime["spec"]["template"]["spec"]
    template["ttlSecondsAfterFinished"] = 1
    template["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] = 1
    space.apply(runtime).expect()
    job = documents.trainjob("again", "short", trainer={"numNodes": 1})
    waits.until("the TrainJob to be admitted", lambda: space.apply(job, dry_run=True).ok, 20)
    space.apply(job).expect()
    first = space.wait_jobset("again")["metadata"]["uid"]

    def again() -> bool:
        found = space.jobset("again")
        return found is not None and found["metadata"]["uid"] != first

    waits.until("another JobSet of the same TrainJob", again, 60)
