"""Builders of OptimizationJobs (trainer `pkg/apis/trainer/v1alpha1/optimizationjob_types.go`)."""

from __future__ import annotations

from tests.support import jobs


def uniform(low, high, kind=None):
    """A search space of numbers; Trainer's default is a float."""
    return {"uniform": _range(low, high, kind)}


def log_uniform(low, high, kind=None):
    """The same, drawn by their logarithms."""
    return {"logUniform": _range(low, high, kind)}


def _range(low, high, kind):
    return {"min": low, "max": high, **({"type": kind} if kind else {})}


def choices(*texts):
    """A search space of texts."""
    return {"categorical": {"choices": list(texts)}}


def make(*flags, **parameters):
    """A search by TRL's GRPO on two nodes, whose args have the flags, and a flag for each parameter with its space."""
    args = [
        "--model_name_or_path=m",
        "--dataset_name=d",
        "--output_dir=o",
        "--reward_funcs=think_format_reward",
        *flags,
    ]
    flagged = {"lr": "learning_rate", "n": "num_generations"}
    args += [f"--{flagged.get(name, name)}=$(KUBEFLOW_TRAINER_OPT_{name})" for name in parameters]
    job = jobs.make_trainjob(
        command=["torchrun", "-m", "trl.scripts.grpo"],
        args=args,
        numNodes=2,
        resourcesPerNode={"limits": {"nvidia.com/gpu": 1}},
    )
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "OptimizationJob",
        "metadata": {"name": "tune"},
        "spec": {
            "objectives": [{"metric": "loss"}],
            "parameters": [{"name": name, "searchSpace": space} for name, space in parameters.items()],
            "trainJobTemplate": {"spec": job["spec"]},
        },
    }
