"""What Trainer does with a guarded job later works as without the guard: suspend, resume and apply."""

from __future__ import annotations

import pytest

from e2e.suites.guard import jobs
from e2e.suites.support import waits
from e2e.suites.support.spaces import TRAINJOBS, Space
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

_VOLUME = "muster-guard"


def test_a_guarded_job_is_suspended_and_resumed_and_measured_again(space: Space) -> None:
    job = jobs.trainjob("hand", "together", "5", "stays")
    name = runs.start(space, jobs.program(), jobs.runtime(), job)
    jobs.achieved(space, name, world_size="2")
    guarded = pod_spec(space, name)
    assert _VOLUME in {each["name"] for each in guarded["volumes"]}

    space.patch(TRAINJOBS, name, {"spec": {"suspend": True}}).expect()
    waits.until("its pods to be gone", lambda: not space.pods(), 90)
    space.patch(TRAINJOBS, name, {"spec": {"suspend": False}}).expect()

    waits.until("it to train again", lambda: "weights after 5 steps" in runs.tail(space, name), 120)
    assert pod_spec(space, name) == guarded
    jobs.end(space, name)
    ranks = runs.ended(space, name)
    assert [rank.report()["worldSize"] for rank in ranks] == [2, 2]


def test_a_guarded_job_that_is_applied_again_stays_as_it_is(space: Space) -> None:
    job = jobs.trainjob("hand", "together", "5", "stays")
    name = runs.start(space, jobs.program(), jobs.runtime(), job)
    before = space.wait_jobset(name)

    space.apply(job, server_side=True, manager="someone").expect()
    space.apply(
        {**job, "metadata": {**job["metadata"], "labels": {"team": "a", "muster.dev/guard": "enforce"}}}
    ).expect()

    jobs.achieved(space, name, world_size="2")
    now = space.jobset(name)
    assert now is not None
    assert (now["metadata"]["uid"], now["spec"]) == (before["metadata"]["uid"], before["spec"])
    jobs.end(space, name)
    runs.ended(space, name)


def pod_spec(space: Space, name: str) -> dict[str, object]:
    """Return the pod template of the training in a JobSet."""
    found: dict[str, object] = space.wait_jobset(name)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
        "spec"
    ]
    return found
