"""Settings of FSDP and DeepSpeed, and single settings, that a trainer refuses at its start."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.trl import arguments, parsing, settings, sharding


def said(*args, method="sft", ranks=4):
    given = arguments.Arguments(method, parsing.parse(method, args))
    every = (*settings.check(given, str), *sharding.check(given, lambda: ranks, str))
    return [(each.field, each.message) for each in every if each.rule == "trl/contradiction"]


def config(text):
    return ("--deepspeed", text)


REFUSED = {
    "an evaluation in both halves": ("fp16_full_eval", ("--fp16_full_eval", "--bf16_full_eval")),
    "workers that persist and are none": ("dataloader_persistent_workers", ("--dataloader_persistent_workers",)),
    "a batch of nothing": ("per_device_train_batch_size", ("--per_device_train_batch_size=0",)),
    "a strategy of the first version of FSDP": ("fsdp", ("--fsdp=hybrid_shard",)),
    "a strategy that is none": ("fsdp", ("--fsdp=shard",)),
    "no JSON": ("deepspeed", config("{'a': 1}")),
    "another batch": (
        "deepspeed",
        (*config('{"train_micro_batch_size_per_gpu": 4}'), "--per_device_train_batch_size=8"),
    ),
    "another batch of all": ("deepspeed", config('{"train_batch_size": 64}')),
    "other steps": ("deepspeed", (*config('{"gradient_accumulation_steps": 4}'), "--gradient_accumulation_steps=2")),
    "another rate": ("deepspeed", (*config('{"optimizer": {"params": {"lr": 0.1}}}'), "--learning_rate=1e-5")),
    "another precision": ("deepspeed", config('{"fp16": {"enabled": true}}')),
    "a precision that is off": ("deepspeed", (*config('{"bf16": {"enabled": false}}'), "--bf16=true")),
    "a search with ZeRO 3": ("deepspeed", (*config('{"zero_optimization": {"stage": 3}}'), "--auto_find_batch_size")),
    "the best of models alone": (
        "save_only_model",
        ("--fsdp=full_shard", "--save_only_model", "--load_best_model_at_end"),
    ),
    "checkpoints twice": ("fsdp_config", ("--fsdp=full_shard", "--fsdp_config", '{"activation_checkpointing": true}')),
    "steps of none": ("torch_empty_cache_steps", ("--torch_empty_cache_steps=0",)),
    "half a step": ("save_steps", ("--save_steps=2.5",)),
    "half a step of the log": ("logging_steps", ("--logging_steps=10.5",)),
    "selective checkpoints of nothing": (
        "gradient_checkpointing_kwargs",
        ("--gradient_checkpointing=false", "--gradient_checkpointing_kwargs", '{"selective": true}'),
    ),
    "warm-up below 0": ("warmup_steps", ("--warmup_steps=-1",)),
    "a word for a path": ("resume_from_checkpoint", ("--resume_from_checkpoint=True",)),
    "the head": ("lora_target_modules", ("--use_peft", "--lora_target_modules", "q_proj", "lm_head")),
    "no rank": ("lora_r", ("--use_peft", "--lora_r=0")),
    "dropout of parameters": ("lora_target_parameters", ("--use_peft", "--lora_target_parameters", "a.b")),
    "flash attention on CPU": ("attn_implementation", ("--attn_implementation=flash_attention_2", "--use_cpu")),
    "flash attention in 32 bits": (
        "attn_implementation",
        ("--attn_implementation=flash_attention_2", "--bf16=false"),
    ),
    "an option that is none": ("debug", ("--debug", "overflow")),
    "all modules, misspelt": ("lora_target_modules", ("--use_peft", "--lora_target_modules", "all_linear")),
    "an attention that is none": ("attn_implementation", ("--attn_implementation=flash_attention",)),
    "a tracker that is none": ("report_to", ("--report_to=wandbb",)),
    "a member of accelerate that is none": ("accelerator_config", ("--accelerator_config", '{"split_batchs": true}')),
}


@pytest.mark.parametrize(("flag", "args"), REFUSED.values(), ids=REFUSED)
def test_what_the_trainer_refuses_is_refused_at_its_flag(flag, args):
    assert [field for field, _ in said(*args)] == [flag]


OF_METHODS = {
    "a divergence that the loss has not": ("dpo", ("--f_divergence_type=js_divergence", "--loss_type=apo_zero")),
    "a stream that is gone through before": ("kto", ("--precompute_ref_log_probs", "--dataset_streaming")),
    "bounds that cross": (
        "grpo",
        ("--vllm_importance_sampling_clip_min=4", "--vllm_importance_sampling_clip_max=3"),
    ),
    "no temperature": ("grpo", ("--temperature=0",)),
    "no tokens": ("rloo", ("--max_completion_length=0",)),
    "more than the memory": ("grpo", ("--use_vllm", "--vllm_mode=colocate", "--vllm_gpu_memory_utilization=90")),
}


@pytest.mark.parametrize(("method", "args"), OF_METHODS.values(), ids=OF_METHODS)
def test_what_one_method_refuses_is_refused(method, args):
    assert len(said(*args, method=method)) == 1


SILENT = {
    "workers that persist": ("--dataloader_persistent_workers", "--dataloader_num_workers=2"),
    "an evaluation in one half": ("--bf16_full_eval",),
    "a strategy of the second version": ("--fsdp=full_shard",),
    "a strategy of a version that a file may name": ("--fsdp=hybrid_shard", "--fsdp_config=fsdp.json"),
    "auto": config(
        '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}'
    ),
    "the same numbers": config(
        '{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 8, "gradient_clipping": 1.0}'
    ),
    "the precision by default": config('{"bf16": {"enabled": true}, "fp16": {"enabled": false}}'),
    "a file": config("/cfg/zero3.json"),
    "a search with ZeRO 2": (*config('{"zero_optimization": {"stage": 2}}'), "--auto_find_batch_size"),
    "another batch that is searched": (
        *config('{"train_micro_batch_size_per_gpu": 4}'),
        "--auto_find_batch_size",
    ),
    "a batch that only the pod knows": (
        *config('{"train_micro_batch_size_per_gpu": 4}'),
        "--per_device_train_batch_size=$(BATCH)",
    ),
    "settings in a file": (*config('{"train_batch_size": 64}'), "--config", "a.yaml"),
    "checkpoints of FSDP alone": (
        *("--fsdp=full_shard", "--fsdp_config", '{"activation_checkpointing": true}', "--gradient_checkpointing=false"),
    ),
    "models alone": ("--fsdp=full_shard", "--save_only_model"),
    "a part of all steps": ("--save_steps=0.5", "--warmup_steps=0.03", "--eval_steps=2.5"),
    "selective checkpoints": ("--gradient_checkpointing_kwargs", '{"selective": true}'),
    "a path": ("--resume_from_checkpoint=/out/checkpoint-5",),
    "the head without adapters": ("--lora_target_modules", "lm_head"),
    "parameters without dropout": ("--use_peft", "--lora_target_parameters", "a.b", "--lora_dropout=0"),
    "flash attention": ("--attn_implementation=flash_attention_2",),
    "flash attention in 16 bits": ("--attn_implementation=flash_attention_2", "--bf16=false", "--dtype=bfloat16"),
    "options that are": ("--debug", "underflow_overflow"),
    "all modules": ("--use_peft", "--lora_target_modules", "all-linear"),
    "a kernel of the hub": ("--attn_implementation=kernels-community/flash-attn3",),
    "a tracker": ("--report_to=trackio",),
    "members of accelerate": ("--accelerator_config", '{"split_batches": true}'),
    "a file of accelerate": ("--accelerator_config", "accelerate.json"),
}


@pytest.mark.parametrize("args", SILENT.values(), ids=SILENT)
def test_what_the_trainer_takes_or_nobody_knows_is_not_spoken_of(args):
    assert said(*args) == []


def test_the_batch_of_all_ranks_is_not_judged_where_their_number_is_unknown():
    assert said(*config('{"train_batch_size": 64}'), ranks=None) == []
