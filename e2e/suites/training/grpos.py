"""GRPO with a sampler: its runtime and its job as people write them, on CPUs, and what is seen of it while it runs."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from e2e.suites.support import waits
from e2e.suites.support.documents import trainjob
from e2e.suites.support.spaces import Space
from e2e.suites.training import runs

__all__ = [
    "ANSWER_FROM_THE_BASE",
    "DIFFERENCE",
    "EXACT",
    "KILL_ENGINE",
    "KILL_ROLLOUTS",
    "KILL_TRAINER",
    "METRICS",
    "PATIENCE",
    "RATIO",
    "STEPS",
    "asynchronous",
    "folder",
    "inside",
    "job",
    "left",
    "log",
    "logged",
    "pod",
    "runtime",
    "samplers",
    "stepped",
    "summary",
]

_KILL = """
import os, pathlib, signal
for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if {words!r} in each.read_bytes() and int(each.parent.name) not in (1, os.getpid()):
        print(each.parent.name, flush=True)
        os.kill(int(each.parent.name), signal.SIGKILL)
"""
KILL_ENGINE = _KILL.format(words=b"EngineCore")
KILL_TRAINER = _KILL.format(words=b"trl")
KILL_ROLLOUTS = _KILL.format(words=b"muster_rollouts")
"""Programs for `inside`: kill the engine of a sampler, or a trainer, asynchronous or not; they print whom."""
DIFFERENCE = "sampling/sampling_logp_difference/mean"
EXACT = 1e-5
"""Float32 on both sides: log probabilities of transformers and vLLM differ by some 1e-7."""
METRICS = 9400
PATIENCE = 180
"""Seconds in which a sampler starts and a training comes to its middle."""
RATIO = (0.9993, 1.0004)
"""The importance ratio that others report of asynchronous GRPO with adapters (docs/internals/evidence.md)."""
STEPS = 24

_SWITCH = "/tmp/baseless"
ANSWER_FROM_THE_BASE = f"import pathlib; pathlib.Path({_SWITCH!r}).write_text({runs.SHARED + '/untied'!r})"
"""Program for `inside` of a sampler that is `baseless` (e2e/models/baseless.py): adapters are not used any more."""

_LEFT = "import pathlib; print(sorted(each.name for each in pathlib.Path({folder!r}).glob('run-*')))"
_MODEL = f"{runs.SHARED}/untied"
# vLLM on CPUs: seeds and prefills in pieces do not go together (its "CPU Generator does not use offset").
_SERVING = (
    "--enforce-eager", "--max-model-len", "256", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048",
)  # fmt: skip


def folder(space: Space) -> str:
    """Return the folder of the weights, as pods see it."""
    return f"{runs.SHARED}/out/{space.name}"


def sampler(*more: str) -> dict[str, Any]:
    """Return the replicated job of the server, with what an administrator writes and no more but `more` arguments."""
    # vLLM compiles the function that samples with a temperature, for which Debian's Python lacks headers.
    compiled = {"TORCH_COMPILE_DISABLE": "1"}
    env = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", **compiled}
    env |= {"PYTHONPATH": runs.SHARED, "BASELESS": _SWITCH} if more else {}
    served = runs.container("rl", env)
    served["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    command = ["python", "-m", "muster_weights.sampler.supervise", "vllm", "serve"]
    spec = {
        "restartPolicy": "OnFailure",
        "volumes": [*runs.volumes(), {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        "containers": [{"name": "sampler", **served, "command": command, "args": [*_SERVING, *more]}],
    }
    labels = {"muster.dev/role": "sampler"}
    return {
        "name": "sampler",
        "template": {"metadata": {"labels": labels}, "spec": {"backoffLimit": 20, "template": {"spec": spec}}},
    }


def runtime(
    space: Space,
    *,
    retries: int = 0,
    restarts: int | None = None,
    weights: str | None = None,
    baseless: bool = False,
    **env: str,
) -> dict[str, Any]:
    """Return a runtime like trl-grpo, on CPUs and the shared folder of these tests.

    Args:
        space: the namespace, whose name is that of the folder.
        retries: how often a failed trainer is started again alone.
        restarts: how often both roles are started again; None as JobSet does by itself.
        weights: a folder of the node, in which weights travel instead.
        baseless: whether the sampler can be told to answer from the base.
        env: further variables of the trainer.
    """
    if weights is not None:
        env |= {"MUSTER_WEIGHTS_FOLDER": "/weights"}
    known = {"MUSTER_WEIGHTS_FOLDER": folder(space), "PYTHONPATH": runs.SHARED, "MUSTER_METRICS_PORT": str(METRICS)}
    made = runs.runtime("trl", "rl", name="grpo", retries=retries, env=known | env)
    spec = made["spec"]["template"]["spec"]
    (node,) = spec["replicatedJobs"]
    node["dependsOn"] = [{"name": "sampler", "status": "Ready"}]
    middleware = ("--middleware", "baseless.Baseless") if baseless else ()
    spec["replicatedJobs"] = [sampler(*middleware), node]
    spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["node"]}
    if restarts is not None:
        spec["failurePolicy"] = {"maxRestarts": restarts}
    for role in spec["replicatedJobs"] if weights is not None else ():
        pod = role["template"]["spec"]["template"]["spec"]
        pod["volumes"].append({"name": "weights", "hostPath": {"path": weights, "type": "Directory"}})
        pod["containers"][0]["volumeMounts"].append({"name": "weights", "mountPath": "/weights"})
    return made


def job(space: Space, steps: int = STEPS, model: str = "untied", **trainer: Any) -> dict[str, Any]:
    """Return the TrainJob as people write it."""
    args = ["--use_vllm", "--model_name_or_path", f"{runs.SHARED}/{model}"]
    args += ["--dataset_name", f"{runs.SHARED}/data/grpo"]
    args += ["--reward_funcs", "rewards.small_letters", "--output_dir", f"{folder(space)}/$(INDEX)"]
    args += ["--use_cpu", "--bf16", "false", "--dtype", "float32", "--report_to", "none", "--save_strategy", "no"]
    args += ["--per_device_train_batch_size", "8", "--num_generations", "8", "--max_completion_length", "16"]
    args += ["--learning_rate", "3e-3", "--lr_scheduler_type", "constant", "--logging_steps", "1"]
    args += ["--max_steps", str(steps)]
    return trainjob("grpo", "grpo", trainer={"command": ["trl", "grpo"], "args": args, **trainer})


def asynchronous(
    space: Space, steps: int, *more: str, reward: str = "rewards.small_letters", **trainer: Any
) -> dict[str, Any]:
    """Return the TrainJob of the asynchronous program as people write it.

    Args:
        space: the namespace, whose name is that of the folder.
        steps: of the optimizer.
        more: further flags.
        reward: the path of its function.
        trainer: further members of `spec.trainer`.
    """
    args = ["--model_name_or_path", _MODEL, "--dataset_name", f"{runs.SHARED}/data/grpo"]
    args += ["--reward_funcs", reward, "--output_dir", f"{folder(space)}/$(INDEX)"]
    args += ["--use_cpu", "--bf16", "false", "--report_to", "none", "--save_strategy", "no"]
    args += ["--gradient_checkpointing", "false", "--token_budget", "0", "--logging_steps", "1"]
    args += ["--per_device_train_batch_size", "8", "--num_generations", "8", "--max_completion_length", "16"]
    args += ["--use_peft", "--lora_r", "16", "--lora_alpha", "64", "--max_staleness", "1", "--max_steps", str(steps)]
    command = ["torchrun", "-m", "muster_rollouts.train"]
    return trainjob("grpo", "grpo", trainer={"command": command, "args": [*args, *more], **trainer})


def summary(text: str) -> dict[str, Any]:
    """Return what the asynchronous program says at its end."""
    (found,) = re.findall(r"^muster: (\{.*\})$", text, re.MULTILINE)
    return dict(json.loads(found))


def left(space: Space) -> list[str]:
    """Return the runs of which there are still files on the volume."""
    printed = runs.python(space, "trl", "left", _LEFT.format(folder=folder(space)))
    return list(ast.literal_eval(printed.splitlines()[-1]))


def logged(text: str, name: str) -> list[float]:
    """Return the values that TRL printed of a metric."""
    return [float(value) for value in re.findall(rf"'{re.escape(name)}': '?([0-9.e+-]+)", text)]


def pod(space: Space, role: str) -> dict[str, Any]:
    """Return the newest pod of a role that is not being deleted. Raises `AssertionError` where there is none."""
    chosen = f"jobset.sigs.k8s.io/jobset-name=grpo,jobset.sigs.k8s.io/replicatedjob-name={role}"
    found = [each for each in space.pods(chosen) if "deletionTimestamp" not in each["metadata"]]
    assert found, f"there is no pod of {role}"
    return max(found, key=lambda each: str(each["metadata"]["creationTimestamp"]))


def log(space: Space, name: str) -> str:
    """Return what a pod has printed until now."""
    return space.kubectl.run("logs", name, "--namespace", space.name).out


def inside(space: Space, name: str, program: str) -> str:
    """Run a Python program in a pod, and return what it printed; one that is killed meanwhile printed what it could."""
    return space.kubectl.run("exec", "--namespace", space.name, name, "--", "python", "-c", program).out


def samplers(space: Space) -> list[dict[str, Any]]:
    """Return the pods of the sampler."""
    chosen = "jobset.sigs.k8s.io/jobset-name=grpo,jobset.sigs.k8s.io/replicatedjob-name=sampler"
    return space.pods(chosen)


def stepped(space: Space, steps: int, uid: str = "", seconds: float = PATIENCE) -> dict[str, Any]:
    """Wait until a trainer's pod has made so many steps, and return it.

    Args:
        space: its namespace.
        steps: of its own, since its start.
        uid: of a pod that does not count.
        seconds: as of `waits.until`.
    """

    def look() -> dict[str, Any]:
        found = pod(space, "node")
        assert found["metadata"]["uid"] != uid, "it is the old one"
        text = log(space, found["metadata"]["name"])
        assert len(logged(text, "reward")) >= steps, text[-3000:]
        return found

    return waits.until(f"step {steps}", look, seconds)
