"""What TRL's configurations refuse, accept and make of a machine without a GPU, before model and data are touched."""

from __future__ import annotations

import socket

import pytest

NAMES = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "o"]
ON_CPU = ["--use_cpu", "--bf16", "false"]

# method, arguments, words of the refusal. Each is an error that no machine can mend.
REFUSED = [
    ("sft", ["--use_cpu", "--bf16", "true", "--fp16"], "At most one of fp16 and bf16"),
    ("sft", ["--use_cpu", "--bf16_full_eval", "--fp16_full_eval"], "for full eval, but not both"),
    ("sft", ["--use_cpu", "--bf16"], "2"),
    ("sft", ["--use_cpu", "--load_in_4bit", "--load_in_8bit"], "8 bit and 4 bit precision at the same time"),
    ("sft", ["--use_cpu", "--dataloader_prefetch_factor", "2"], "--dataloader_num_workers > 0"),
    ("sft", ["--use_cpu", "--load_best_model_at_end"], "requires the save and eval strategy to match"),
    ("sft", ["--use_cpu", "--warmup_steps", "-1"], "warmup_steps"),
    ("sft", ["--use_cpu", "--logging_steps", "0"], "requires non-zero --logging_steps"),
    ("sft", ["--use_cpu", "--lr_scheduler_type", "reduce_lr_on_plateau"], "requires an eval strategy"),
    ("sft", ["--use_cpu", "--fsdp", "hybrid_shard"], "only available with FSDP1"),
    ("sft", ["--use_cpu", "--liger_kernel_config", '{"rope": true}'], "2"),
    ("sft", ["--use_cpu", "--no_such_flag", "1"], "are not used by the HfArgumentParser"),
    ("sft", ["--use_cpu", "--num_machines", "2"], "are not used by the HfArgumentParser"),
    ("sft", ["--use_cpu", "--config=config.yaml"], "are not used by the HfArgumentParser"),
    ("dpo", ["--use_cpu", "--loss_weights", "1", "2"], "same length as `loss_type`"),
    ("grpo", ["--use_cpu", "--num_generations", "1"], "at least 2 generations"),
    ("grpo", ["--use_cpu", "--per_device_train_batch_size", "2"], "must be divisible by num_generations"),
    (
        "grpo",
        ["--use_cpu", "--generation_batch_size", "8", "--steps_per_generation", "1"],
        "can not be both configured",
    ),
    ("grpo", ["--use_cpu", "--generation_batch_size", "12"], "must be divisible by the global batch size"),
    ("grpo", ["--use_cpu", "--auto_find_batch_size"], "auto_find_batch_size is not supported"),
    ("rloo", ["--use_cpu", "--num_generations", "1"], "at least 2 generations"),
    ("rloo", ["--use_cpu", "--auto_find_batch_size"], "auto_find_batch_size is not supported"),
    ("distillation", ["--use_cpu", "--beta", "2"], "beta must be in"),
]

# Looks wrong, and is taken in silence at this point.
ACCEPTED = [
    ("sft", ["--use_cpu", "--lora_r", "8"]),
    ("sft", ["--use_cpu", "--load_in_4bit"]),
    ("sft", ["--use_cpu", "--padding_free"]),
    ("sft", ["--use_cpu", "--use_cp"]),
    ("grpo", ["--use_cpu", "--use_vllm", "--vllm_mode", "nowhere"]),
    ("grpo", ["--use_cpu"]),
    ("distillation", ["--use_cpu"]),
]

ON_NO_GPU = {
    "nothing said": [],
    "bf16 off": ["--bf16", "false"],
    "use_cpu": ["--use_cpu"],
    "fp16": ["--fp16"],
}

AS_A_WORKER = {
    "cpu forgotten": ["--bf16", "false"],
    "cpu forgotten, gloo": ["--bf16", "false", "--ddp_backend", "gloo"],
    "cpu forgotten, nccl": ["--bf16", "false", "--ddp_backend", "nccl"],
    "cpu": ON_CPU,
    "cpu, gloo": [*ON_CPU, "--ddp_backend", "gloo"],
    "cpu, nccl": [*ON_CPU, "--ddp_backend", "nccl"],
}


def config(method, argv, env=None):
    return {"method": method, "argv": [*NAMES, *argv], "env": env or {}}


@pytest.fixture(scope="module")
def made(launch_answers):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    worker = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    asked = {f"{method} {argv}": config(method, argv) for method, argv, *_ in [*REFUSED, *ACCEPTED]}
    asked |= {name: config("sft", argv) for name, argv in ON_NO_GPU.items()}
    asked |= {f"worker: {name}": config("sft", argv, worker) for name, argv in AS_A_WORKER.items()}
    asked["preset's precision"] = config("sft", ON_CPU, {"ACCELERATE_MIXED_PRECISION": "bf16"})
    return launch_answers({}, asked)


@pytest.mark.parametrize(("method", "argv", "words"), REFUSED, ids=str)
def test_a_contradiction_is_refused(made, method, argv, words):
    assert words in made[f"{method} {argv}"]["message"]


@pytest.mark.parametrize(("method", "argv"), ACCEPTED, ids=str)
def test_a_mistake_that_trl_does_not_see_here(made, method, argv):
    assert made[f"{method} {argv}"]["world"] == 1


def test_bf16_is_on_by_default_and_needs_a_gpu_or_use_cpu(made):
    assert "You need to assign use_cpu" in made["nothing said"]["message"]
    assert [made[name]["bf16"] for name in ("bf16 off", "use_cpu", "fp16")] == [False, True, False]


def test_workers_on_cpu_form_one_training_only_with_use_cpu(made):
    assert (made["worker: cpu"]["backend"], made["worker: cpu"]["wrapped"]) == ("gloo", "DISTRIBUTED")


@pytest.mark.parametrize("name", ["cpu forgotten", "cpu forgotten, gloo"])
def test_workers_on_cpu_without_use_cpu_meet_and_then_train_alone(made, name):
    found = made[f"worker: {name}"]
    assert (found["group"], found["wrapped"]) == (True, "NOT_PARALLEL")


def test_a_backend_that_the_machine_lacks_is_refused(made):
    assert "nccl is not available, please use gloo" in made["worker: cpu, nccl"]["message"]
    assert "no GPUs found" in made["worker: cpu forgotten, nccl"]["message"]
    assert made["worker: cpu, gloo"]["backend"] == "gloo"


def test_a_presets_precision_stands_where_bf16_is_switched_off(made):
    found = made["preset's precision"]
    assert (found["bf16"], found["mixed_precision"]) == (False, "bf16")
