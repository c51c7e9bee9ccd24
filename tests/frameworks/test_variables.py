"""Variables that stand for flags of torchrun and Accelerate, and roots in which torchrun finds no folder."""

from __future__ import annotations

import pytest

from muster.strategies.checks.job_checks import check_job
from tests.frameworks.builders import found, gpus, job_of, jobset, replicated_job, runtime, trainjob


def told(line="torchrun x.py", count=4, **env):
    entries = [{"name": name, "value": value} for name, value in env.items()]
    document = trainjob({"command": line.split(), "env": entries, "resourcesPerNode": gpus(count) if count else None})
    return [(each.severity.value, each.field) for each in found("torch", document, runtime())]


STOPS = {
    "restarts in words": {"PET_MAX_RESTARTS": "three"},
    "seconds in words": {"PET_MONITOR_INTERVAL": "often"},
    "an option without a value": {"PET_RDZV_CONF": "timeout"},
    "a stream that is none": {"PET_REDIRECTS": "4"},
    "ranks in words": {"PET_LOCAL_RANKS_FILTER": "first"},
    "a switch in words": {"PET_STANDALONE": "true"},
    "a program in words": {"PET_NO_PYTHON": "yes"},
    "a script as a program": {"PET_NO_PYTHON": "1"},
}


@pytest.mark.parametrize("env", STOPS.values(), ids=STOPS)
def test_torchrun_stops_at_a_variable_as_at_its_flag(env):
    assert told(**env) == [("error", f"spec.trainer.env[{next(iter(env))}]")]


READ = {
    "restarts": {"PET_MAX_RESTARTS": "3"},
    "streams": {"PET_TEE": "3", "PET_REDIRECTS": "0:3,1:0"},
    "switches": {"PET_NO_PYTHON": "0", "PET_STANDALONE": "1"},
    "nothing": {"PET_MAX_RESTARTS": ""},
    "a variable": {"PET_MONITOR_INTERVAL": "$(SECONDS_BETWEEN)"},
    "no flag of torchrun": {"PET_NAME": "Rex"},
    "a choice, which no parser compares": {"PET_START_METHOD": "spoon"},
}


@pytest.mark.parametrize("env", READ.values(), ids=READ)
def test_what_torchrun_takes_is_silent(env):
    assert told(**env) == []


def test_a_flag_wins_over_its_variable_and_other_programs_read_none():
    assert told("torchrun --max-restarts 2 x.py", PET_MAX_RESTARTS="three") == []
    assert told("python x.py", count=1, PET_MAX_RESTARTS="three") == []


SHARDED = {"ACCELERATE_USE_FSDP": "true"}
ACCELERATES = {
    "the processor": ({"ACCELERATE_USE_CPU": "true"}, "ACCELERATE_USE_CPU"),
    "the processor as a device": ({"ACCELERATE_TORCH_DEVICE": "cpu"}, "ACCELERATE_TORCH_DEVICE"),
    "a truth that is none": ({"ACCELERATE_USE_FSDP": "maybe"}, "ACCELERATE_USE_FSDP"),
    "a number that is none": ({"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "two"}, None),
    "a strategy that is none": ({**SHARDED, "FSDP_SHARDING_STRATEGY": "HALF"}, "FSDP_SHARDING_STRATEGY"),
    "a policy that is none": ({**SHARDED, "FSDP_AUTO_WRAP_POLICY": "auto"}, "FSDP_AUTO_WRAP_POLICY"),
    "offloading of nothing": (
        {**SHARDED, "FSDP_VERSION": "2", "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "true"},
        "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD",
    ),
}


@pytest.mark.parametrize(("env", "name"), ACCELERATES.values(), ids=ACCELERATES)
def test_accelerate_stops_or_leaves_the_gpus(env, name):
    assert told(**env) == [("warning", f"spec.trainer.env[{name or next(iter(env))}]")]


KNOWN = {
    "not the processor": {"ACCELERATE_USE_CPU": "no"},
    "FSDP": {**SHARDED, "FSDP_SHARDING_STRATEGY": "full_shard", "FSDP_BACKWARD_PREFETCH": "1", "FSDP_VERSION": "1"},
    "settings of FSDP that nobody reads": {"FSDP_AUTO_WRAP_POLICY": "auto"},
    "offloading of checkpoints": {
        **SHARDED,
        "FSDP_VERSION": "2",
        "FSDP_ACTIVATION_CHECKPOINTING": "true",
        "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "true",
    },
    "precision, which Accelerate does not compare": {"ACCELERATE_MIXED_PRECISION": "bfloat16"},
}


@pytest.mark.parametrize("env", KNOWN.values(), ids=KNOWN)
def test_what_accelerate_takes_is_silent(env):
    assert told(**env) == []


def test_accelerate_launch_writes_over_settings_of_fsdp():
    line = "accelerate launch --use_fsdp --num_processes 4 --num_machines 1 x.py"
    assert told(line, **SHARDED, FSDP_AUTO_WRAP_POLICY="auto") == []


def test_without_gpus_the_processor_is_right():
    assert told("torchrun --nproc-per-node 1 x.py", count=0, ACCELERATE_USE_CPU="true") == []


def rooted(line="torchrun x.py", *, mounts=(), volumes=(), env=(), **more):
    container = {
        "name": "node",
        "image": "i",
        "command": line.split(),
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts],
        "env": [{"name": name, "value": value} for name, value in env],
        **more,
    }
    pod = {"volumes": [{"name": name, **source} for name, source in volumes]}
    document = jobset(replicated_job("node", container, pod=pod))
    return [each.severity.value for each in check_job(job_of(document)) if each.rule == "core/read-only-root"]


SCRATCH, FIXED = (("scratch", {"emptyDir": {}}),), (("scratch", {"configMap": {"name": "c"}}),)


def test_torchrun_needs_a_folder_for_its_logs():
    assert rooted() == ["warning"]
    assert rooted(mounts=[("scratch", "/tmp")], volumes=FIXED) == ["warning"]
    assert rooted(mounts=[("scratch", "/data")], volumes=SCRATCH, workingDir="/srv") == ["warning"]
    assert rooted("torchrun --log-dir /logs x.py", mounts=[("scratch", "/tmp")], volumes=SCRATCH) == ["warning"]


def test_any_folder_that_can_be_written_is_enough():
    assert rooted(mounts=[("scratch", "/tmp")], volumes=SCRATCH) == []
    assert rooted(mounts=[("scratch", "/var/tmp")], volumes=SCRATCH) == []
    assert rooted(mounts=[("scratch", "/data")], volumes=SCRATCH, env=[("TMPDIR", "/data/tmp")], workingDir="/") == []
    assert rooted(mounts=[("scratch", "/data")], volumes=SCRATCH, workingDir="/data") == []
    assert rooted("torchrun --log-dir /data/logs x.py", mounts=[("scratch", "/data")], volumes=SCRATCH) == []


def test_where_nothing_is_written_or_nothing_is_known_it_is_silent():
    assert rooted("torchrun --log-dir /dev/null x.py") == []
    assert rooted(mounts=[("scratch", "/data")], volumes=SCRATCH) == []  # the image may start there
    assert rooted("python x.py") == []
    assert rooted("/opt/start") == []
    assert rooted(env=[("TMPDIR", "$(SCRATCH)")]) == []
    assert rooted(envFrom=[{"configMapRef": {"name": "c"}}]) == []
