"""The rollout worker that a program gives to AsyncGRPOTrainer."""

from __future__ import annotations

import os
from typing import Any

from trl.experimental.async_grpo import AsyncGRPOConfig
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker

from muster_rollouts.counts import CountedQueue, Counts
from muster_rollouts.gate import Progress
from muster_rollouts.loops import GatedLoop

__all__ = ["GatedRolloutWorker"]

_ADAPTERS = "trl-policy"  # AsyncGRPOTrainer._lora_name, TRL 1.16.0


class GatedRolloutWorker(AsyncRolloutWorker):  # type: ignore[misc]  # TRL has no types
    """TRL's worker behind a gate; it is one of TRL's, so that AsyncGRPOTrainer resumes it from checkpoints.

    Args:
        max_staleness: of AsyncGRPOConfig.
        per_version: samples that the trainer takes between two versions; it corrects itself by what the trainer takes.
        scale_advantages: whether advantages are divided by the standard deviation of their group; Dr. GRPO does not.
        arguments: of TRL's worker.
    """

    _loop_cls = GatedLoop

    def __init__(
        self,
        *,
        max_staleness: int,
        per_version: int,
        scale_advantages: bool = True,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self._model_version_value = Counts(self._mp_ctx, per_version)
        self._loop_kwargs |= {"max_staleness": max_staleness, "scale_advantages": scale_advantages}
        self.rollout_buffer: Any = CountedQueue(self.rollout_buffer, self._model_version_value)

    @property
    def progress(self) -> Progress:
        """What the trainer has taken so far."""
        return self._model_version_value.read()

    @classmethod
    def of(
        cls,
        config: AsyncGRPOConfig,
        *,
        adapters: bool | str = False,
        scale_advantages: bool = True,
        **arguments: Any,
    ) -> GatedRolloutWorker:
        """Make the worker that AsyncGRPOTrainer would make of its configuration, behind a gate.

        Args:
            config: the one that the trainer gets as well.
            adapters: whether the server gets LoRA adapters by name, as of a PEFT model without `weight_transfer`; with
                an AdapterTransfer of muster_weights, its `name`.
            scale_advantages: see the class.
            arguments: `model_name`, `dataset`, `reward_funcs`, `processing_class` and `eos_token_ids`; `tools` and
                `environment_factory` where there are some.
        """
        ranks = int(os.environ.get("WORLD_SIZE", "1"))
        step = config.per_device_train_batch_size * config.gradient_accumulation_steps * ranks
        per_version = step * config.weight_sync_steps
        running = config.max_inflight_tasks
        return cls(
            max_staleness=config.max_staleness,
            per_version=per_version,
            scale_advantages=scale_advantages,
            lora_name=adapters if isinstance(adapters, str) else _ADAPTERS if adapters else None,
            num_generations=config.num_generations,
            max_inflight_tasks=running if running > 0 else (config.max_staleness + 1) * per_version,
            queue_maxsize=config.queue_maxsize,
            vllm_server_url=config.vllm_server_base_url,
            max_tokens=config.max_completion_length,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            min_p=config.min_p,
            repetition_penalty=config.repetition_penalty,
            request_timeout=config.request_timeout,
            chat_template_kwargs=config.chat_template_kwargs,
            max_tool_calling_iterations=config.max_tool_calling_iterations,
            log_completions=config.log_completions,
            num_completions_to_print=config.num_completions_to_print,
            fork_threshold_tokens=config.fork_threshold_tokens,
            **arguments,
        )
