"""The ends of a job: complete, failed, past its deadline, and deleted by its TTL."""

from __future__ import annotations

import pytest

from e2e.suites.lifecycle import lives, scenes
from e2e.suites.support import documents, spaces, waits


def runtime(*, ends=False, backoff=None, **template):
    made = documents.training_runtime("plain", "torch", nodes=2, command=["torchrun", "train.py"], ends=ends)
    made["spec"]["template"]["spec"].update(template)
    if backoff is not None:
        made["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = backoff
    return made


@pytest.fixture
def submit(space):
    return lambda of, **how: lives.submit(space, of, documents.trainjob("life", "plain", **how))


@pytest.fixture
def start(space, installation, submit):
    def started(of, **how):
        submit(of, **how)
        return lives.Life(space, "life", installation)

    return started


def test_a_job_whose_pods_succeed_is_complete(space, start):
    start(runtime(ends=True))
    trainjob = space.wait_trainjob("life", "Complete")
    scene = scenes.look(space, "life")
    assert scene.denials == []
    assert spaces.conditions(scene.jobset)["Completed"] == "True"
    assert {pod["status"]["phase"] for pod in scene.pods} == {"Succeeded"}
    assert "Failed" not in spaces.conditions(trainjob)


@pytest.mark.thorough
def test_a_job_that_waited_first_is_complete_in_the_end(space, start):
    life = start(runtime(ends=True), suspend=True)
    life.wait("suspended")
    life.poke(2)
    space.patch(spaces.TRAINJOBS, "life", {"spec": {"suspend": False}}).expect()
    space.wait_trainjob("life", "Complete")
    assert scenes.look(space, "life").denials == []
    life.delete()


def test_a_job_whose_pod_fails_is_failed(space, start):
    life = start(runtime(backoff=0))
    scene = life.wait("running")
    name = scene.pods[0]["metadata"]["name"]
    space.patch("pods", name, {"status": {"phase": "Failed"}}, subresource="status").expect()
    space.wait_trainjob("life", "Failed")
    assert scenes.look(space, "life").denials == []
    life.delete()


@pytest.mark.thorough
def test_a_job_that_takes_too_long_is_failed(space, submit):
    submit(runtime(), activeDeadlineSeconds=4)
    trainjob = space.wait_trainjob("life", "Failed")
    reasons = [each["reason"] for each in trainjob["status"]["conditions"] if each["type"] == "Failed"]
    assert reasons == ["DeadlineExceeded"]
    waits.until("the pods to be gone", lambda: not scenes.look(space, "life").pods)
    assert scenes.look(space, "life").denials == []


def test_the_jobset_of_a_complete_job_goes_by_itself_after_its_time(space, submit):
    submit(runtime(ends=True, ttlSecondsAfterFinished=2))
    space.wait_trainjob("life", "Complete")
    space.wait_gone(spaces.JOBSETS, "life")
    scene = scenes.look(space, "life")
    assert scene.denials == []
    assert scene.conditions()["Complete"] == "True"
