"""GRPO from one TrainJob: a trainer and a vLLM sampler come up in order, exchange exact weights, and end together."""

from __future__ import annotations

import re
from typing import Any

import pytest

from e2e.suites.support import waits
from e2e.suites.support.documents import trainjob
from e2e.suites.support.spaces import Space
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

IMAGES = ("trl", "rl")
_MODEL = f"{runs.SHARED}/untied"
_STEPS = 24
# vLLM on CPUs: seeds and prefills in pieces do not go together (its "CPU Generator does not use offset").
_SERVING = (
    "--enforce-eager", "--max-model-len", "256", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048",
)  # fmt: skip


def sampler(space: Space) -> dict[str, Any]:
    """The replicated job of the server, with what an administrator writes and no more."""
    # vLLM compiles the function that samples with a temperature, for which Debian's Python lacks headers.
    compiled = {"TORCH_COMPILE_DISABLE": "1"}
    env = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", **compiled}
    served = runs.container("rl", env)
    served["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    command = ["python", "-m", "muster_weights.sampler.supervise", "vllm", "serve"]
    pod = {
        "restartPolicy": "OnFailure",
        "volumes": [*runs.volumes(), {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        "containers": [{"name": "sampler", **served, "command": command, "args": [*_SERVING]}],
    }
    labels = {"muster.dev/role": "sampler"}
    return {
        "name": "sampler",
        "template": {"metadata": {"labels": labels}, "spec": {"backoffLimit": 20, "template": {"spec": pod}}},
    }


def runtime(space: Space) -> dict[str, Any]:
    """A runtime like trl-grpo, on CPUs and the shared folder of these tests."""
    folder = f"{runs.SHARED}/out/{space.name}"
    made = runs.runtime("trl", "rl", name="grpo", env={"MUSTER_WEIGHTS_FOLDER": folder, "PYTHONPATH": runs.SHARED})
    spec = made["spec"]["template"]["spec"]
    (node,) = spec["replicatedJobs"]
    node["dependsOn"] = [{"name": "sampler", "status": "Ready"}]
    spec["replicatedJobs"] = [sampler(space), node]
    spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["node"]}
    return made


def job(space: Space, **trainer: Any) -> dict[str, Any]:
    """The TrainJob as people write it."""
    args = ["--use_vllm", "--model_name_or_path", _MODEL, "--dataset_name", f"{runs.SHARED}/data/grpo"]
    args += ["--reward_funcs", "rewards.small_letters", "--output_dir", f"{runs.SHARED}/out/{space.name}/$(INDEX)"]
    args += ["--use_cpu", "--bf16", "false", "--dtype", "float32", "--report_to", "none", "--save_strategy", "no"]
    args += ["--per_device_train_batch_size", "8", "--num_generations", "8", "--max_completion_length", "16"]
    args += ["--learning_rate", "3e-3", "--lr_scheduler_type", "constant", "--logging_steps", "1"]
    args += ["--max_steps", str(_STEPS)]
    return trainjob("grpo", "grpo", trainer={"command": ["trl", "grpo"], "args": args, **trainer})


def logged(log: str, name: str) -> list[float]:
    """Return the values that TRL printed of a metric."""
    return [float(value) for value in re.findall(rf"'{re.escape(name)}': '?([0-9.e+-]+)", log)]


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_trainer_learns_from_a_sampler_that_serves_exactly_its_weights(
    space: Space, models: None, nodes: int
) -> None:
    name = runs.start(space, runtime(space), job(space, numNodes=nodes))

    ranks = runs.ended(space, name)

    assert [rank.report()["worldSize"] for rank in ranks] == [nodes] * nodes
    rewards = logged(ranks[0].log, "reward")
    assert len(rewards) == _STEPS, ranks[0].log
    assert sum(rewards[-4:]) > 4 * 0.8 > 4 * 0.3 > sum(rewards[:4]), rewards
    differences = logged(ranks[0].log, "sampling/sampling_logp_difference/mean")
    assert len(differences) == _STEPS
    assert max(differences) < 1e-5
    waits.until("the sampler to be gone", lambda: not _samplers(space, name) or pytest.fail("it is there"), 60)


def _samplers(space: Space, name: str) -> list[dict[str, Any]]:
    chosen = f"jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=sampler"
    return [pod for pod in space.pods(chosen) if "deletionTimestamp" not in pod["metadata"]]
