"""The rendezvous: what the training container of a JobSet is told, and what it is never told."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import (
    GPU,
    INDEX,
    enforce,
    gpus,
    jobset,
    jobset_of,
    replicated_job,
    run,
    runtime,
    trainjob,
)
from tests.frameworks.meetings import C10D, KIND, MASTERS, RANKS, TORCHRUN, alone, made, world


def test_a_job_under_torchrun_gets_the_coordinator_and_the_size_and_no_ranks():
    assert made(TORCHRUN | {"numNodes": 2}).added == MASTERS | world(8)


def test_c10d_gets_a_store_on_the_coordinator_and_a_name_that_stays():
    out = made(TORCHRUN | {"numNodes": 2}, annotations={KIND: "c10d"})
    assert out.added == MASTERS | world(8) | C10D
    assert "not the pod index" in out.reasons


# --- what the user set ----------------------------------------------------------------------------------------------

USERS = {
    "a size": ("MUSTER_EXPECTED_WORLD_SIZE", "1", {}),
    "a backend under c10d": ("PET_RDZV_BACKEND", "static", {KIND: "c10d"}),
}


@pytest.mark.parametrize(("name", "value", "annotations"), USERS.values(), ids=USERS)
def test_what_the_user_set_stays_and_is_reported(name, value, annotations):
    trainer = TORCHRUN | {"numNodes": 2, "env": [{"name": name, "value": value}]}
    out = made(trainer, annotations=annotations)
    assert out.env[name] == value
    assert name not in out.added
    (finding,) = out.changes.findings
    assert finding.field.endswith(f".containers[node].env[{name}]")
    assert finding.value == value
    assert "kept as the job sets it" in finding.message


ADDRESSES = {"of a plain program": ("MASTER_ADDR", "elsewhere"), "of a store": ("PET_RDZV_ENDPOINT", "elsewhere:1")}


@pytest.mark.parametrize(("name", "value"), ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_stays_without_a_word_where_variables_are_added(name, value):
    section = TORCHRUN | {"numNodes": 2, "env": [{"name": name, "value": value}]}
    out = made(section, annotations={KIND: "c10d"})
    assert (out.env[name], out.warnings) == (value, [])


def test_the_users_port_is_everyones_port():
    out = alone({**TORCHRUN, "env": [{"name": "MASTER_PORT", "value": "1234"}]}, annotations={KIND: "c10d"})
    assert out.env["MASTER_PORT"] == out.env["PET_MASTER_PORT"] == "1234"
    assert out.env["PET_RDZV_ENDPOINT"] == "job-node-0-0.job:1234"
    assert out.warnings == []


def test_a_value_equal_to_ours_is_not_talked_about():
    assert made(TORCHRUN | {"env": [{"name": "MASTER_PORT", "value": "29500"}]}).warnings == []


def test_a_flag_on_the_command_line_is_not_contradicted_by_env():
    line = ["torchrun", "--rdzv_backend=c10d", "--rdzv_endpoint=h:1", "--rdzv_id=me", "x.py"]
    out = made({"command": line, "numNodes": 2})
    assert out.added == MASTERS | world(8)
    out = made({"command": [*line[:2], "x.py"], "numNodes": 2})
    assert out.added == MASTERS | world(8) | {name: C10D[name] for name in ("PET_RDZV_ENDPOINT", "PET_RDZV_ID")}


def test_an_annotation_that_the_command_line_overrules_is_reported():
    out = made({"command": ["torchrun", "--rdzv_backend=static", "x.py"], "numNodes": 2}, annotations={KIND: "c10d"})
    (finding,) = out.changes.findings
    assert (finding.value, finding.field.rpartition(".")[2]) == ("--rdzv_backend static", "command")


# --- ranks ----------------------------------------------------------------------------------------------------------

PLAIN = {
    "a script": ["python", "train.py"],
    "a module": ["python3", "-u", "-m", "pkg.train"],
    "a module of TRL": ["python", "-m", "trl.scripts.sft"],
}
LAUNCHED = {
    "torchrun": ["torchrun", "x.py"],
    "torchrun as a module": ["python", "-m", "torch.distributed.run", "x.py"],
    "accelerate": ["accelerate", "launch", "x.py"],
    "trl": ["trl", "sft"],
    "trl as a module": ["python", "-m", "trl", "sft"],
    "tune": ["tune", "run", "full_finetune_distributed"],
    "an unknown program": ["deepspeed", "x.py"],
    "the image's own": [],
}


@pytest.mark.parametrize("command", PLAIN.values(), ids=PLAIN)
def test_a_plain_program_with_one_process_per_node_is_given_its_rank(command):
    out = made({"command": command, "numNodes": 2}, runtime(resources=gpus(1)))
    assert out.added == MASTERS | world(2) | RANKS


@pytest.mark.parametrize("command", LAUNCHED.values(), ids=LAUNCHED)
def test_whatever_starts_processes_itself_is_given_no_rank(command):
    out = made({"command": command, "numNodes": 2}, runtime(resources=gpus(1)))
    assert not RANKS.keys() & out.env.keys()


def test_a_plain_program_on_one_node_is_given_no_rank():
    assert not RANKS.keys() & made({"command": ["python", "x.py"]}, runtime(resources=gpus(1))).env.keys()


def test_a_plain_program_with_several_processes_per_node_is_given_the_rank_of_its_node_alone():
    out = made({"command": ["python", "x.py"], "numNodes": 2}, runtime(resources=gpus(4)))
    assert RANKS.keys() & out.env.keys() == {"NODE_RANK"}


def test_composer_is_given_the_number_of_all_processes():
    out = made({"command": ["composer", "x.py"], "numNodes": 2}, runtime(resources=gpus(4)))
    assert (out.env["WORLD_SIZE"], out.env["NODE_RANK"]) == ("8", INDEX)


# --- an address that is wrong, or missing -----------------------------------------------------------------------------

WRONG = {
    "a subdomain": ({"network": {"subdomain": "net"}}, "job-node-0-0.net:29500"),
    "another name of the training job": ({"job_name": "trainer"}, "job-trainer-0-0.job:29500"),
    "no DNS names on one node": ({"network": {"enableDNSHostnames": False}}, "localhost:29500"),
}


@pytest.mark.parametrize(("governing", "endpoint"), WRONG.values(), ids=WRONG)
def test_an_address_of_trainers_that_does_not_resolve_is_corrected_by_an_addition(governing, endpoint):
    out = made(TORCHRUN, runtime(**governing, resources=gpus(4)))
    assert out.env["PET_MASTER_ADDR"] == "job-node-0-0.job"
    assert out.env["PET_RDZV_ENDPOINT"] == endpoint
    assert f"{out.env['MASTER_ADDR']}:{out.env['MASTER_PORT']}" == endpoint
    assert {change.op for change in out.changes} == {"add"}


@pytest.mark.parametrize("flag", ["--rdzv_endpoint=h:1", "--master_addr=h"])
def test_an_address_on_the_command_line_needs_no_correction(flag):
    out = made({"command": ["torchrun", flag, "x.py"]}, runtime(network={"subdomain": "net"}))
    assert "PET_RDZV_ENDPOINT" not in out.env


PET = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "1",
    "PET_NODE_RANK": INDEX,
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29500",
}


def test_a_jobset_without_trainer_gets_what_trainer_would_have_given():
    assert alone(TORCHRUN, parallelism=2).added == PET | MASTERS | world(2)


def test_what_such_a_jobset_has_of_it_is_left_and_the_rest_is_added():
    own = [{"name": "PET_NNODES", "value": "2"}, {"name": "PET_MASTER_ADDR", "value": "h"}]
    out = alone({**TORCHRUN, "env": own}, parallelism=2)
    assert out.env == PET | MASTERS | world(2) | {"PET_MASTER_ADDR": "h"}
    assert out.warnings == []


def test_a_jobset_of_trainers_without_its_env_gets_it():
    governing, document = runtime(), trainjob(None)
    out = enforce("torch", jobset_of(document, governing), governing, owner=document)
    assert out.added == PET | {"PET_NNODES": "1"} | MASTERS


def test_devices_of_unknown_number_are_left_to_torchrun():
    resources = {"resources": {"limits": {"nvidia.com/gpu.shared": 2}}}
    assert alone(TORCHRUN | resources).env["PET_NPROC_PER_NODE"] == "auto"


def test_the_node_rank_is_the_job_index_where_each_job_has_one_pod():
    out = alone({"command": ["python", "x.py"]}, replicas=2)
    by_job = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
    assert (out.env["PET_NODE_RANK"], out.env["RANK"], out.env["WORLD_SIZE"]) == (by_job, by_job, "2")


NUMBERLESS = {
    "several jobs of several pods": {"replicas": 2, "parallelism": 2},
    "pods without an index": {"parallelism": 4, "completionMode": "NonIndexed"},
}


@pytest.mark.parametrize("job", NUMBERLESS.values(), ids=NUMBERLESS)
def test_nodes_that_cannot_be_numbered_are_warned_of_unless_c10d_numbers_them(job):
    out = alone({"command": ["python", "x.py"]}, **job)
    assert "PET_NODE_RANK" not in out.env
    assert "RANK" not in out.env
    assert out.rules == ["torch/node-rank"]
    assert alone(TORCHRUN, annotations={KIND: "c10d"}, **job).rules == []


# --- what stays as it is --------------------------------------------------------------------------------------------

ADMITTED = {
    "under torchrun": {"command": ["torchrun", "x.py"], "numNodes": 2},
    "under c10d": {"command": ["torchrun", "--max-restarts=1", "x.py"], "numNodes": 2},
    "as a plain program": {"command": ["python", "x.py"], "numNodes": 2, "resourcesPerNode": gpus(1)},
    "with its own address": {"env": [{"name": "MASTER_ADDR", "value": "me"}]},
    "without a trainer section": None,
}


@pytest.mark.parametrize("trainer", ADMITTED.values(), ids=ADMITTED)
def test_a_second_pass_adds_nothing_to_a_job(trainer):
    governing = runtime(resources={"limits": {GPU: 1}}, network={"subdomain": "net"})
    first, second = run("torch", trainjob(trainer), governing)
    again = enforce("torch", first.document, governing)
    assert len(again.changes) == 0
    assert len(enforce("torch", second.document, governing, owner=first.document).changes) == 0


@pytest.mark.parametrize("job", [{}, {"parallelism": 2}, {"replicas": 2}])
def test_a_second_pass_adds_nothing_to_a_jobset_without_trainer(job):
    first = alone({"command": ["python", "x.py"]}, network={"subdomain": "net"}, **job)
    assert len(enforce("torch", first.document).changes) == 0


def test_other_containers_init_containers_and_initializer_jobs_are_not_touched():
    pod = {"initContainers": [{"name": "node", "image": "i"}]}
    governing = runtime(initializers=("dataset-initializer", "model-initializer"), pod=pod)
    document = trainjob(TORCHRUN | {"numNodes": 2})
    before = jobset_of(document, governing)
    containers = before["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "sidecar", "env": [{"name": "A", "value": "b"}]})
    out = enforce("torch", before, governing, owner=document)
    assert all("/replicatedJobs/2/" in change.path and "/containers/1/env" in change.path for change in out.changes)
    assert len(out.changes) == 3


def test_a_trainjob_itself_gets_no_env_since_its_name_may_not_be_known():
    assert enforce("torch", trainjob(TORCHRUN, name=None), runtime()).document == trainjob(TORCHRUN, name=None)


def test_a_jobset_whose_training_container_cannot_be_told_is_left_alone():
    document = jobset(replicated_job("a", {"name": "x"}), replicated_job("b", {"name": "y"}))
    assert len(enforce("torch", document).changes) == 0
