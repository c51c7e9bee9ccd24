"""The number of processes follows the claim, wherever it was asked for."""

from __future__ import annotations

import pytest

from tests.support import admissions, devices, jobs
from tests.support.worlds import World

CLASS = devices.device_class()


def world(profile, container=None, framework="torch", **trainer):
    runtime = jobs.make_runtime("torch", framework=framework, container=container)
    asked = devices.annotated(profile=profile)
    more = {"command": ["torchrun", "x.py"], **trainer}
    made = World(runtime, policy=devices.policy(), others=(CLASS,))
    made.create(jobs.make_trainjob(runtime="torch", metadata=asked, **more))
    made.reconcile()
    return made


@pytest.mark.parametrize("limits", [{}, {"nvidia.com/gpu": 1}, {"cpu": 16}, {"nvidia.com/gpu": 8, "cpu": 16}])
@pytest.mark.parametrize("framework", ["torch", "trl"])
def test_trainer_starts_a_process_for_each_device_of_the_claim(limits, framework):
    made = world("quad", {"resources": {"limits": limits}}, framework, numNodes=2)
    assert made.trainjob["spec"]["trainer"]["numProcPerNode"] == 4
    env = jobs.env_of(jobs.container_of(made.jobset))
    assert env["PET_NPROC_PER_NODE"] == "4"
    assert env["MUSTER_EXPECTED_WORLD_SIZE"] == "8"


def test_a_number_that_was_written_stays():
    made = world("quad", numProcPerNode=2)
    assert made.trainjob["spec"]["trainer"]["numProcPerNode"] == 2
    assert jobs.env_of(jobs.container_of(made.jobset))["MUSTER_EXPECTED_WORLD_SIZE"] == "2"


def test_where_kubernetes_makes_the_claim_trainer_counts_the_limit_as_ever():
    made = world("plain", {"resources": {"limits": {"nvidia.com/gpu": 2}}})
    assert "numProcPerNode" not in made.trainjob["spec"]["trainer"]


def test_the_reason_names_the_profile_and_who_asked_for_it():
    runtime = jobs.make_runtime("torch", framework="torch")
    job = jobs.make_trainjob(runtime="torch", metadata=devices.annotated(profile="quad"), numNodes=1)
    decision = admissions.decide(job, runtime, CLASS, policy=devices.policy())
    (pinned,) = (change for change in decision.changes if change.rule == "torch/processes")
    assert "profile quad (TrainJob annotation muster.dev/claim-profile)" in pinned.reason


def test_a_template_of_the_users_own_is_counted_too():
    asked = devices.annotated(claims=[{"name": "gpu", "resourceClaimTemplateName": "two"}])
    runtime = jobs.make_runtime("torch", framework="torch")
    job = jobs.make_trainjob(runtime="torch", metadata=asked, command=["torchrun", "x.py"])
    stored = devices.stored(job, runtime, CLASS, devices.template(count=2))
    assert stored["spec"]["trainer"]["numProcPerNode"] == 2


def test_a_claim_named_in_a_runtime_is_counted_by_what_it_asks_for():
    pod = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    runtime = jobs.make_runtime(
        "torch", framework="torch", pod=pod, container={"resources": {"claims": [{"name": "gpu"}]}}
    )
    job = jobs.make_trainjob(runtime="torch", command=["torchrun", "x.py"])
    stored = devices.stored(job, runtime, devices.template("mine", 8, kind="ResourceClaim"))
    assert stored["spec"]["trainer"]["numProcPerNode"] == 8


@pytest.mark.parametrize("used", [{}, {"request": "gpu"}], ids=["as a whole", "by its request"])
def test_a_claim_that_the_pod_has_already_is_counted_once(used):
    asked = {"name": "gpu", "resourceClaimTemplateName": "two"}
    metadata = {**devices.annotated(claims=[asked]), "labels": {jobs.FRAMEWORK: "torch"}}
    container = {"command": ["torchrun", "x.py"], "resources": {"claims": [{"name": "gpu", **used}]}}
    made = jobs.make_jobset(metadata=metadata, container=container)
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["resourceClaims"] = [asked]
    stored = jobs.container_of(devices.stored(made, CLASS, devices.template(count=2)))
    assert stored["resources"]["claims"] == [{"name": "gpu", **used}]
    assert jobs.env_of(stored)["PET_NPROC_PER_NODE"] == "2"


def test_vllm_spreads_over_all_devices_of_the_claim():
    metadata = {**devices.annotated(profile="quad"), "labels": {jobs.FRAMEWORK: "vllm"}}
    container = {"args": ["--model=m"], "resources": {"limits": {"nvidia.com/gpu": 1}}}
    made = jobs.make_jobset(metadata=metadata, container=container)
    args = jobs.container_of(devices.stored(made, CLASS))["args"]
    assert args[args.index("--tensor-parallel-size") + 1] == "4"


def test_a_job_whose_claim_cannot_be_made_is_not_taken_for_one_on_cpu():
    metadata = {**devices.annotated(profile="huge"), "labels": {jobs.FRAMEWORK: "vllm"}}
    metadata["annotations"]["muster.dev/vllm-features"] = "sleep"
    made = jobs.make_jobset(metadata=metadata, container={"args": ["--model=m"]})
    found = admissions.decide(made, phase="validate", policy=devices.policy()).findings
    assert [each.rule for each in found] == ["claims/unknown-profile"]
