"""`python -m muster_rollouts.train`: TRL's AsyncGRPOTrainer behind a gate, with weights that are verified.

It takes the flags of `AsyncGRPOConfig` and those of `arguments`. `torchrun -m muster_rollouts.train` starts several
ranks. The trainer is TRL's own: the worker and the transfer of weights are given to it by its two protocols.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset, load_from_disk
from peft import LoraConfig
from transformers import AutoTokenizer, GenerationConfig, TrainerCallback
from trl import rewards
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import add_response_schema

from muster_rollouts import answers, switches
from muster_rollouts.arguments import Arguments, make_parser
from muster_rollouts.losses import ConstantDivisorTrainer
from muster_rollouts.reports import Report
from muster_rollouts.worker import GatedRolloutWorker

__all__ = ["main"]

_FOLDER = "MUSTER_WEIGHTS_FOLDER"


def main() -> None:
    """Train, and say at the end what was thrown away and how far the samples were from the trainer."""
    script, config = make_parser().parse_args_and_config()
    _check(script)
    if script.without_kernels or importlib.util.find_spec("kernels") is None:
        _say("attention is computed by torch, because there is no package kernels or --without_kernels is given")
        switches.without_kernels()
    trainer, transfer = _trainer(script, config)
    report = Report()
    trainer.add_callback(_reporting(report))
    with transfer.attached(trainer) if transfer is not None else contextlib.nullcontext():
        trainer.train(resume_from_checkpoint=config.resume_from_checkpoint)
    trainer.save_model(config.output_dir)
    if trainer.accelerator.is_main_process:
        probe = {} if transfer is None else {"probe": transfer.probe.last}
        found = report.told(trainer.rollout_worker.progress.taken)
        _say(json.dumps({"steps": trainer.state.global_step, **found, **probe}))
    if hasattr(trainer, "end"):
        trainer.end()


def _say(text: str) -> None:
    if int(os.environ.get("RANK", "0")) == 0:
        sys.stderr.write(f"muster: {text}\n")
        sys.stderr.flush()


def _check(script: Arguments) -> None:
    """Raise `SystemExit` with a reason for flags that cannot be."""
    if not script.model_name_or_path:
        raise SystemExit("muster: --model_name_or_path is missing; name the model that the sampler serves")
    if not script.dataset_name:
        raise SystemExit("muster: --dataset_name is missing; name a data set of the hub, or a folder")
    if not script.reward_funcs:
        raise SystemExit("muster: --reward_funcs is missing; use answer_reward, or the dotted path of a function")
    if script.use_peft and not os.environ.get(_FOLDER):
        raise SystemExit(f"muster: {_FOLDER} is not set, and adapters go by files; name a folder of the shared volume")


def _trainer(script: Arguments, config: AsyncGRPOConfig) -> tuple[Any, Any]:
    """Return the trainer, and the transfer of its adapters, None where whole models are sent."""
    config.model_init_kwargs = {"revision": script.model_revision, **(config.model_init_kwargs or {})}
    transfer = None
    if script.use_peft:
        transfers = importlib.import_module("muster_weights.trainer.transfers")
        transfer = transfers.AdapterTransfer(config.vllm_server_base_url, max_staleness=config.max_staleness)
    tokenizer = _tokenizer(script, config)
    dataset = _dataset(script)
    functions = [_reward(name, script) for name in script.reward_funcs or ()]
    worker = GatedRolloutWorker.of(
        config,
        adapters=transfer.name if transfer is not None else False,
        scale_advantages=script.scale_rewards == "group",
        model_name=script.model_name_or_path,
        dataset=dataset,
        reward_funcs=functions,
        processing_class=_readable(tokenizer),
        eos_token_ids=_ends(script, tokenizer),
    )
    kind = ConstantDivisorTrainer if script.loss_type == "dr_grpo" else AsyncGRPOTrainer
    trainer = kind(
        model=script.model_name_or_path,
        args=config,
        train_dataset=dataset,
        reward_funcs=functions,
        processing_class=tokenizer,
        peft_config=_adapter(script) if script.use_peft else None,
        rollout_worker=worker,
        weight_transfer=transfer,
    )
    return trainer, transfer


def _adapter(script: Arguments) -> LoraConfig:
    """Return the adapter; without dropout, which would make the trainer's probabilities other than the sampler's."""
    return LoraConfig(
        r=script.lora_r,
        lora_alpha=script.lora_alpha,
        lora_dropout=0.0,
        target_modules=script.lora_target_modules,
        bias="none",
        task_type="CAUSAL_LM",
    )


def _tokenizer(script: Arguments, config: AsyncGRPOConfig) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(
        script.model_name_or_path, revision=script.model_revision, trust_remote_code=config.trust_remote_code
    )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _readable(tokenizer: Any) -> Any:
    """Return a tokenizer for the worker, which ends where TRL does not know the chat template.

    There it gets a template by which nothing can be read, so that TRL takes the answer for plain text.
    """
    made = copy.deepcopy(tokenizer)
    if getattr(made, "response_template", None) is None and getattr(made, "response_schema", None) is None:
        try:
            add_response_schema(made)
        except ValueError:
            made.response_template = {"fields": {}}
    return made


def _ends(script: Arguments, tokenizer: Any) -> list[int]:
    """Return the tokens that end an answer: those of the model's configuration, and the tokenizer's."""
    try:
        found = GenerationConfig.from_pretrained(script.model_name_or_path, revision=script.model_revision).eos_token_id
    except OSError:
        found = None
    every = [found] if isinstance(found, int) else list(found or ())
    return list(dict.fromkeys([tokenizer.eos_token_id, *every]))


def _dataset(script: Arguments) -> Any:
    """Return the rows to train on, each with a conversation as `prompt`."""
    name, split = str(script.dataset_name), script.dataset_train_split
    if (Path(name) / "dataset_dict.json").is_file():
        found = load_from_disk(name)[split]
    else:
        found = load_dataset(name, name=script.dataset_config, split=split)
    if not {"prompt", script.question_column} & set(found.column_names):
        columns = ", ".join(found.column_names)
        raise SystemExit(f"muster: --question_column {script.question_column} is not in the data set: it has {columns}")
    rows: Dataset = found.map(
        lambda row: {"prompt": answers.prompt_of(row, script.question_column, script.system_prompt)}
    )
    return rows


def _reward(name: str, script: Arguments) -> Callable[..., Any]:
    if name == "answer_reward":
        return answers.AnswerReward(
            script.answer_pattern, script.answer_column, script.reward_right, script.reward_wrong
        )
    if "." not in name:
        if not hasattr(rewards, name):
            raise SystemExit(f"muster: --reward_funcs {name} is not a reward of TRL's; use a dotted path")
        return _function(rewards, name)
    sys.path.insert(0, str(Path.cwd()))
    module, _, function = name.rpartition(".")
    return _function(importlib.import_module(module), function)


def _function(module: Any, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(module, name)
    return found


def _reporting(report: Report) -> Any:
    class Reporting(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
        """Gives the report what is logged."""

        def on_log(self, _: Any, state: Any, *__: Any, logs: Any = None, **___: Any) -> None:
            """Take a line of the log."""
            report.add(logs or {}, state.global_step)

    return Reporting()


if __name__ == "__main__":
    main()
