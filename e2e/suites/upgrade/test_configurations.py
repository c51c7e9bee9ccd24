"""The configuration changes: jobs keep what they were created with, new ones get what is configured now."""

from __future__ import annotations

import pytest

from e2e.suites.lifecycle import cases, lives, scenes

pytestmark = pytest.mark.xdist_group("installation")

CASE = cases.CASES["trl"]
ENDPOINT = {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"}
LAUNCH = ["torchrun", "-m", "trl.scripts.sft"]


def begin(space, installation, name, *, suspend):
    lives.submit(space, CASE.runtime, CASE.job(name, suspend=suspend))
    life = lives.Life(space, name, installation)
    life.wait("suspended" if suspend else "running")
    return life


def env_of(space, name):
    return {each["name"] for each in scenes.container(space.jobset(name)).get("env", ())}


def send_again(space, name):
    """Send the file of a job that runs once more, in ways that bring back what Muster replaced."""
    again = CASE.job(name, suspend=False)
    space.apply(again, server_side=True, options=("--force-conflicts",)).expect()
    space.apply(again).expect()
    assert space.trainjob(name)["spec"]["trainer"]["command"] == LAUNCH


def live_on(*jobs):
    """A running one and a waiting one."""
    runs, waits = jobs
    runs.suspend()
    runs.poke()
    runs.resume()
    waits.turn()


@pytest.mark.thorough
def test_jobs_keep_their_rendezvous_when_another_is_configured(space, installation):
    jobs = [begin(space, installation, name, suspend=suspend) for name, suspend in (("runs", False), ("waits", True))]
    with installation.configure({"frameworks": {"trl": {"rendezvous": "c10d"}}}):
        live_on(*jobs)
        new = begin(space, installation, "new", suspend=True)
        assert env_of(space, "new") >= ENDPOINT
        assert not env_of(space, "runs") & ENDPOINT
        assert not env_of(space, "waits") & ENDPOINT
    new.turn()
    assert env_of(space, "new") >= ENDPOINT


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["off", "warn"])
def test_jobs_go_on_when_muster_is_switched_off(space, installation, mode):
    jobs = [begin(space, installation, name, suspend=suspend) for name, suspend in (("runs", False), ("waits", True))]
    with installation.configure({"mode": mode, "frameworks": {"trl": {"mode": mode}}}):
        live_on(*jobs)
        for name in ("runs", "waits"):
            send_again(space, name)
        new = begin(space, installation, "new", suspend=False)
        assert new.trainer["command"] == ["trl", "sft"]
        assert new.made["applied"] is None
    jobs[0].suspend()
    new.suspend()
    new.resume()
    assert scenes.container(space.jobset("new"))["command"] == ["trl", "sft"]


def test_a_runtime_that_changed_while_muster_was_away_changes_no_job(space, installation):
    jobs = [begin(space, installation, name, suspend=suspend) for name, suspend in (("runs", False), ("waits", True))]
    installation.stop()
    try:
        other = {**CASE.runtime, "metadata": {**CASE.runtime["metadata"], "labels": {}}}
        space.apply(other).expect()
    finally:
        installation.start()
    live_on(*jobs)
    for life in jobs:
        send_again(space, life.name)
    lives.submit(space, other, CASE.job("new"))
    new = lives.Life(space, "new", installation)
    assert new.trainer["command"] == ["trl", "sft"]
    for life in jobs:
        life.check()
        life.delete()
