"""Nodes that cannot find each other: addresses, ranks and env that a job writes itself."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import enforce, found, gpus, jobset, replicated_job, runtime, trainjob

ONE = runtime(resources=gpus(1))


def judged(line, env=None, *, nodes=2, governing=ONE, annotations=None):
    section = {"command": line.split(), "numNodes": nodes}
    if env:
        section["env"] = [{"name": name, "value": value} for name, value in env.items()]
    document = enforce("torch", trainjob(section, annotations=annotations), governing).document
    return [(each.severity.value, each.rule, each.field) for each in found("torch", document, governing)]


MEETING = {
    "torchrun alone": ("torchrun x.py", {}),
    "the coordinator by its variable": ("torchrun --master_addr=$(PET_MASTER_ADDR) x.py", {}),
    "the coordinator by name": ("torchrun --rdzv_endpoint=job-node-0-0.job:29500 x.py", {}),
    "the coordinator by its full name": ("torchrun --master_addr=job-node-0-0.job.default.svc x.py", {}),
    "the node's rank by its variable": ("torchrun --node_rank=$(PET_NODE_RANK) x.py", {}),
    "a rank that torchrun sets itself": ("torchrun x.py", {"RANK": "0", "MASTER_ADDR": "localhost"}),
    "a rank that c10d does not read": ("torchrun --rdzv_backend=c10d --node_rank=0 x.py", {}),
    "a plain program": ("python x.py", {}),
    "a plain program with the number of nodes": ("python x.py", {"WORLD_SIZE": "2"}),
    "an elastic launch": ("torchrun --nnodes=1:2 x.py", {}),
}


@pytest.mark.parametrize(("line", "env"), MEETING.values(), ids=MEETING)
def test_nothing_is_found_where_nodes_meet(line, env):
    assert judged(line, env) == []


ALONE = {
    "an endpoint": ("torchrun --rdzv_endpoint=localhost:29500 x.py", {}, "core/loopback", "spec.trainer.command[1]"),
    "an address": ("torchrun --master-addr 127.0.0.1 x.py", {}, "core/loopback", "spec.trainer.command[1]"),
    "an endpoint in env": (
        "torchrun x.py",
        {"PET_RDZV_ENDPOINT": "[::1]:1"},
        "core/loopback",
        "spec.trainer.env[PET_RDZV_ENDPOINT]",
    ),
    "an address of a plain program": (
        "python x.py",
        {"MASTER_ADDR": "localhost"},
        "core/loopback",
        "spec.trainer.env[MASTER_ADDR]",
    ),
    "each pod's own name": (
        "torchrun --rdzv_endpoint=$(HOSTNAME):29500 x.py",
        {},
        "core/loopback",
        "spec.trainer.command[1]",
    ),
    "a rank": ("torchrun --node_rank=0 x.py", {}, "core/fixed-rank", "spec.trainer.command[1]"),
    "a rank of a plain program": ("python x.py", {"RANK": "0"}, "core/fixed-rank", "spec.trainer.env[RANK]"),
    "a rank of Lightning": ("python x.py", {"NODE_RANK": "0"}, "core/fixed-rank", "spec.trainer.env[NODE_RANK]"),
    "a world of another size": ("python x.py", {"WORLD_SIZE": "1"}, "core/world-size", "spec.trainer.env[WORLD_SIZE]"),
    "a world that is too large": (
        "python x.py",
        {"WORLD_SIZE": "8"},
        "core/world-size",
        "spec.trainer.env[WORLD_SIZE]",
    ),
    "an id that differs": (
        "torchrun --rdzv_backend=c10d --rdzv_id=$(RANDOM) x.py",
        {},
        "core/rdzv-id",
        "spec.trainer.command[2]",
    ),
    "a store without an address": (
        "torchrun --rdzv_backend=etcd-v2 x.py",
        {},
        "core/endpoint",
        "spec.trainer.command[1]",
    ),
}


@pytest.mark.parametrize(("line", "env", "rule", "field"), ALONE.values(), ids=ALONE)
def test_what_keeps_nodes_apart_is_refused_where_it_is_written(line, env, rule, field):
    assert judged(line, env) == [("error", rule, field)]


@pytest.mark.parametrize(("line", "env"), [each[:2] for each in ALONE.values()], ids=ALONE)
def test_one_node_need_not_meet_anybody(line, env):
    rules = {each[1] for each in judged(line, env, nodes=1)}
    assert rules <= {"core/world-size"}


def test_the_address_of_another_job_is_warned_about():
    line = "torchrun --master_addr=other-node-0-0.other x.py"
    assert judged(line) == [("warning", "core/other-coordinator", "spec.trainer.command[1]")]


def test_a_config_map_that_may_hold_ranks_is_told():
    governing = runtime(resources=gpus(1), envFrom=[{"configMapRef": {"name": "settings"}}])
    assert judged("torchrun x.py", governing=governing) == [("note", "core/env-from", "spec.runtimeRef.name")]
    prefixed = runtime(resources=gpus(1), envFrom=[{"prefix": "APP_", "configMapRef": {"name": "settings"}}])
    assert judged("torchrun x.py", governing=prefixed) == []


def test_a_runtimes_env_is_reported_at_the_runtime():
    governing = runtime(resources=gpus(1), env=[{"name": "PET_RDZV_ENDPOINT", "value": "localhost:1"}])
    assert judged("torchrun x.py", governing=governing) == [("error", "core/loopback", "spec.runtimeRef.name")]


def test_a_jobset_of_ones_own_is_judged_at_its_container():
    env = [{"name": "PET_NODE_RANK", "value": "0"}]
    node = replicated_job(
        "node", {"name": "node", "command": ["torchrun", "x.py"], "env": env}, parallelism=2, completions=2
    )
    (finding,) = found("torch", jobset(node))
    assert (finding.rule, finding.severity.value) == ("core/fixed-rank", "error")
    assert finding.field.endswith("containers[node].env[PET_NODE_RANK]")


def test_what_an_unread_launch_may_use_is_a_warning():
    rules = [each[:2] for each in judged("./start.sh", {"MASTER_ADDR": "localhost", "NODE_RANK": "0"})]
    assert rules == [("warning", "core/loopback"), ("warning", "core/fixed-rank")]


SETS_NO_POD = {"a subdomain": ({"subdomain": "team"}, "node"), "a job of another name": (None, "worker")}


def judged_on(command, network, name):
    governing = runtime(resources=gpus(4))
    spec = governing["spec"]["template"]["spec"]
    spec["replicatedJobs"][0]["name"] = name
    if network:
        spec["network"] = network
    document = trainjob({"numNodes": 2, "command": command.split()})
    return [each.rule for each in found("torch", document, governing)]


@pytest.mark.parametrize(("network", "name"), SETS_NO_POD.values(), ids=SETS_NO_POD)
@pytest.mark.parametrize("flag", ["--master-addr=$(PET_MASTER_ADDR)", "--rdzv-endpoint=$(PET_MASTER_ADDR):29500"])
def test_the_address_of_trainer_is_refused_where_no_pod_has_it(network, name, flag):
    assert judged_on(f"torchrun {flag} x.py", network, name) == ["core/other-coordinator"]
    assert judged_on(f"torchrun {flag} x.py", None, "node") == []


@pytest.mark.parametrize(("network", "name"), SETS_NO_POD.values(), ids=SETS_NO_POD)
def test_the_address_of_muster_is_right_there(network, name):
    assert judged_on("torchrun --master-addr=$(MASTER_ADDR) x.py", network, name) == []


@pytest.mark.parametrize(("port", "rules"), [("0", ["core/own-port"]), ("29500", [])])
def test_all_nodes_know_the_port(port, rules):
    assert judged_on(f"torchrun --master-port={port} x.py", None, "node") == rules
