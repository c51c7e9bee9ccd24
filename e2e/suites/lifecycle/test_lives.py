"""The life of a job in a queue, for every way in which Muster changes a job."""

from __future__ import annotations

import json

import pytest

from e2e.suites.lifecycle import cases, lives, scenes
from e2e.suites.lifecycle.lives import APPLIED, Life
from e2e.suites.support import documents, thorough, waits
from e2e.suites.support.spaces import JOBSETS


def create(space, runtime, job):
    """Create a job whose name the API server completes, and return it as it was stored."""
    return lives.submit(space, runtime, job, lambda space, job: space.create(job, options=("-o", "json"))).json


@pytest.mark.parametrize("case", thorough.but_named("torchtune", "trl", of=cases.CASES))
def test_a_suspended_job_is_looked_at_and_runs_and_waits_and_runs_and_goes(space, installation, case):
    lives.submit(space, case.runtime, case.job(suspend=True))
    life = Life(space, "life", installation)
    scene = life.wait("suspended")
    assert case.shows(scene.jobset)
    assert (APPLIED in scene.trainjob["metadata"].get("annotations", {})) is case.remembers
    assert json.loads(scene.jobset["metadata"]["annotations"][APPLIED])["fields"]
    life.turn()
    life.delete()


@pytest.mark.thorough
def test_a_job_that_never_waited_is_suspended_resumed_and_deleted(space, installation):
    case = cases.CASES["trl"]
    lives.submit(space, case.runtime, case.job())
    life = Life(space, "life", installation)
    life.wait("running")
    life.suspend()
    life.poke()
    life.resume()
    life.delete()


def test_a_job_with_a_generated_name_lives_as_any_other(space, installation):
    case = cases.CASES["trl"]
    made = create(space, case.runtime, case.job("life-", generate=True, suspend=True))
    name = made["metadata"]["name"]
    life = Life(space, name, installation)
    assert made["spec"]["trainer"]["command"] == ["torchrun", "-m", "trl.scripts.sft"]
    env = {each["name"]: each.get("value") for each in scenes.container(space.jobset(name))["env"]}
    assert env["MASTER_ADDR"] == f"{name}-node-0-0.{name}"
    life.turn()
    life.delete()


@pytest.mark.thorough
def test_a_torchtune_job_with_a_generated_name_meets_at_the_name_that_it_got(space, installation):
    case = cases.CASES["torchtune"]
    made = create(space, case.runtime, case.job("tune-", generate=True, suspend=True))
    life = Life(space, made["metadata"]["name"], installation)
    assert "--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)" in made["spec"]["trainer"]["command"]
    life.turn()
    life.delete()


@pytest.mark.thorough
def test_a_suspended_job_is_deleted_with_all_that_was_made_from_it(space, installation):
    case = cases.CASES["torch"]
    lives.submit(space, case.runtime, case.job(suspend=True))
    life = Life(space, "life", installation)
    life.wait("suspended")
    life.delete()


def test_a_job_whose_initializers_have_ended_waits_and_runs_again(space, installation):
    runtime = documents.training_runtime(
        "torchtune-llama3.2-1b",
        "torchtune",
        command=["tune", "run", "full_finetune_single_device", "--config", "llama3_2/1B_full", "output_dir=/workspace"],
        initializers=["dataset-initializer", "model-initializer"],
        pod={"volumes": [{"name": "initializer", "emptyDir": {}}]},
        container={"volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}]},
    )
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"][:2]:
        job["template"]["spec"]["template"]["metadata"] = {"labels": {documents.ENDS_LABEL: "true"}}
    source = {"storageUri": "hf://acme/anything"}
    trainer = {"command": ["tune", "run"], "numProcPerNode": 1}
    job = documents.trainjob(
        "life", "torchtune-llama3.2-1b", trainer=trainer, suspend=True, initializer={"dataset": source, "model": source}
    )
    lives.submit(space, runtime, job)
    life = Life(space, "life", installation)
    life.wait("suspended")
    life.poke()
    life.resume()
    waits.until("the training to start", lambda: len(scenes.look(space, "life").jobs) == 3)
    scene = life.wait("running")
    assert len([pod for pod in scene.pods if pod["status"]["phase"] == "Running"]) == 1
    life.suspend()
    life.resume()
    life.delete()


@pytest.mark.thorough
def test_a_job_in_a_namespace_that_switches_muster_off_later_goes_on(space, installation):
    case = cases.CASES["trl"]
    lives.submit(space, case.runtime, case.job(suspend=True))
    life = Life(space, "life", installation)
    space.mode("off")
    life.turn()
    life.delete()


def test_a_job_whose_runtime_changes_under_it_keeps_what_it_is_made_of(space, installation):
    case = cases.CASES["trl without a trainer section"]
    lives.submit(space, case.runtime, case.job(suspend=True))
    life = Life(space, "life", installation)
    life.wait("suspended")
    changed = documents.training_runtime("trl", "torch", nodes=3, command=["python", "other.py"], env={"NEW": "1"})
    space.apply(changed).expect()
    life.turn()
    space.apply(case.job(suspend=False), server_side=True, options=("--force-conflicts",)).expect()
    assert case.shows(life.check().jobset)
    lives.submit(space, changed, case.job("new"))
    assert scenes.container(space.wait_jobset("new"))["command"] == ["python", "other.py"]


def test_a_job_from_before_muster_gets_its_launch_corrected_on_the_jobset_and_lives(space, installation):
    """The one overwrite on a JobSet of Trainer's that Muster itself makes: it must be restored at each apply."""
    case = cases.CASES["trl"]
    space.mode("off")
    lives.submit(space, case.runtime, case.job(suspend=True))
    before = Life(space, "life")
    assert scenes.container(space.jobset("life"))["command"] == ["trl", "sft"]
    assert before.made["applied"] is None
    space.mode(None)
    first = space.jobset("life")["metadata"]["uid"]
    space.delete(JOBSETS, "life", wait=True).expect()
    waits.until("Trainer to make another JobSet", lambda: space.jobset("life")["metadata"]["uid"] != first)
    life = Life(space, "life", installation)
    assert scenes.container(space.jobset("life"))["command"] == ["torchrun", "-m", "trl.scripts.sft"]
    assert space.trainjob("life")["spec"]["trainer"]["command"] == ["trl", "sft"]
    life.turn()
    life.delete()


def test_a_jobset_that_trainer_did_not_make_is_suspended_and_resumed(space):
    command = ["trl", "sft", "--model_name_or_path", "m", "--dataset_name", "d"]
    gpu = {"limits": {"nvidia.com/gpu": 1}}
    jobset = documents.jobset("life", "trl", nodes=2, command=command, resources=gpu, suspend=True)
    space.apply(jobset).expect()
    scene = scenes.wait(space, "life", "suspended")
    made = lives.frozen(scene.jobset)
    assert scenes.container(scene.jobset)["command"][:3] == ["torchrun", "-m", "trl.scripts.sft"]
    for suspend, state in ((False, "running"), (True, "suspended"), (False, "running")):
        space.patch(JOBSETS, "life", {"spec": {"suspend": suspend}}).expect()
        assert lives.frozen(scenes.wait(space, "life", state).jobset) == made
    space.delete(JOBSETS, "life").expect()
    scenes.wait(space, "life", "gone")
