"""TRL: what people type becomes a launch in which all ranks meet."""

from __future__ import annotations

import pytest

from e2e.suites.pods import trainings
from e2e.suites.support import thorough
from e2e.suites.support.documents import trainjob
from e2e.suites.support.spaces import Space

_ARGS = ["--model_name_or_path", "m", "--dataset_name", "d", "--use_cpu"]
_RUNTIME = trainings.runtime("trl", "trl", command=["torchrun", "-m", "trl.scripts.sft"])


@pytest.mark.thorough
def test_one_process_runs_as_it_was_typed(space: Space) -> None:
    (pod,) = trainings.run(space, _RUNTIME, trainjob("one", "trl", trainer={"command": ["trl", "sft"], "args": _ARGS}))
    assert pod.command == ["trl", "sft", *_ARGS]
    assert pod.env["MUSTER_EXPECTED_WORLD_SIZE"] == "1"
    trainings.assert_met([pod], "one-node-0-0.one")


@pytest.mark.parametrize("method", thorough.but("sft", of=["sft", "dpo"]))
@pytest.mark.parametrize("launcher", thorough.but_named("typed", of={"typed": [], "around": ["torchrun"]}))
def test_several_nodes_run_the_method_under_torchrun(space: Space, method: str, launcher: list[str]) -> None:
    trainer = {"numNodes": 2, "command": [*launcher, "trl", method], "args": _ARGS}
    pods = trainings.run(space, _RUNTIME, trainjob("many", "trl", trainer=trainer))
    trainings.assert_met(pods, "many-node-0-0.many")
    assert [pod.command for pod in pods] == [["torchrun", "-m", f"trl.scripts.{method}", *_ARGS]] * 2
    assert all(pod.env["PET_NNODES"] == "2" for pod in pods)
    # trl and torchrun count for themselves, and fail where they find these.
    assert not any({"RANK", "WORLD_SIZE", "LOCAL_RANK"} & pod.env.keys() for pod in pods)


def test_flags_of_accelerate_are_completed_to_a_launch_that_spans_the_nodes(space: Space, gpus: str) -> None:
    resources = {"resourcesPerNode": {"limits": {gpus: "1"}}}
    trainer = {"numNodes": 2, **resources, "command": ["trl", "sft", "--mixed_precision", "no"], "args": _ARGS[:-1]}
    pods = trainings.run(space, _RUNTIME, trainjob("flags", "trl", trainer=trainer))
    trainings.assert_met(pods, "flags-node-0-0.flags")
    meeting = ["--main_process_ip", "flags-node-0-0.flags", "--main_process_port", "29500"]
    for pod in pods:
        assert pod.command[:4] == ["trl", "sft", "--mixed_precision", "no"]
        ours = ["--num_machines", "2", "--num_processes", "2", "--machine_rank", str(pod.index), *meeting]
        assert pod.command[-len(ours) :] == ours


@pytest.mark.thorough
def test_the_method_of_an_annotation_replaces_that_of_the_runtime(space: Space) -> None:
    runtime = trainings.runtime("trl", "trl")
    job = trainjob("noted", "trl", trainer={"numNodes": 2, "args": _ARGS}, annotations={"muster.dev/trl-method": "dpo"})
    pods = trainings.run(space, runtime, job)
    assert [pod.command for pod in pods] == [["torchrun", "-m", "trl.scripts.dpo", *_ARGS]] * 2
    trainings.assert_met(pods, "noted-node-0-0.noted")


def test_a_preset_of_accelerate_becomes_its_environment(space: Space) -> None:
    trainer = {"numNodes": 2, "command": ["trl", "sft", "--accelerate_config", "fsdp2"], "args": _ARGS}
    pods = trainings.run(space, _RUNTIME, trainjob("preset", "trl", trainer=trainer))
    assert [pod.command for pod in pods] == [["torchrun", "-m", "trl.scripts.sft", *_ARGS]] * 2
    assert [(pod.env["ACCELERATE_USE_FSDP"], pod.env["FSDP_VERSION"]) for pod in pods] == [("true", "2")] * 2
