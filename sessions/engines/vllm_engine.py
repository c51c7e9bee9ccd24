"""vLLM inside this process, one step at a time, set right where it differs from what a session is promised.

Written against vLLM 0.31.0. Prompts are scored by a method of ours: `GPUModelRunner._get_prompt_logprobs_dict` computes
the logits of prompts with the adapters of the rows that are sampled, so an adapter on the output layer gives wrong
numbers beside other requests, and on a CPU the engine ends ("einsum(): ... does not broadcast").
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["Engine", "Sink"]

_ALWAYS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the scores of prompts are taken from the runner itself
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the same
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",  # by one: a prompt may fill the context; the token after it is thrown away
    "VLLM_NO_USAGE_STATS": "1",
}
_UNLESS_SAID = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
_BATCH = 8192  # tokens of one step on a CPU, at least
_ROWS = 1024  # logits of a prompt at a time

Sink = Callable[[int, Tensor], None]


class Engine:
    """A `LLMEngine` of vLLM with adapters.

    Args:
        base: folder of the model.
        slots: adapters in one step.
        rank: the highest of an adapter; one of those that vLLM has.
        context: tokens of a sequence.
        memory: share of the GPU that weights and cache may take.
        cache: GiB of keys and values instead of what `memory` leaves; None is 1 on CPUs.
    """

    def __init__(  # noqa: PLR0913  # what vLLM is told
        self, base: Path, *, slots: int, rank: int, context: int, memory: float, cache: float | None
    ) -> None:
        os.environ |= _ALWAYS
        os.environ |= {name: os.environ.get(name, value) for name, value in _UNLESS_SAID.items()}
        import vllm  # noqa: PLC0415  # it reads the environment
        from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415  # as above
        from vllm.lora.layers import LoRAMapping  # noqa: PLC0415  # as above
        from vllm.lora.request import LoRARequest  # noqa: PLC0415  # as above
        from vllm.platforms import current_platform  # noqa: PLC0415  # as above
        from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415  # as above

        args = _arguments(base, slots, rank, context) | {
            "gpu_memory_utilization": memory,
            "kv_cache_memory_bytes": None if cache is None else int(cache * 2**30),
        }
        if current_platform.is_cpu():
            args |= _on_cpu(context, cache)
        self._params, self._request, self._mapping = vllm.SamplingParams, LoRARequest, LoRAMapping
        self._engine = LLMEngine.from_engine_args(EngineArgs(**args))
        self._numbers = count(1)
        self._sinks: dict[str, Sink] = {}
        self._runner: Any = self._engine.model_executor.driver_worker.worker.model_runner
        self._runner._get_prompt_logprobs_dict = self._scored  # noqa: SLF001  # see above

    def add(self, folder: Path) -> Any:
        """Load an adapter under a new name, so that no cached prefix is of an old one, and return what `send` takes."""
        number = next(self._numbers)
        adapter = self._request(f"adapter-{number}", number, str(folder))
        self._engine.add_lora(adapter)
        return adapter

    def remove(self, adapter: Any) -> None:
        """Unload an adapter that no prompt uses."""
        self._engine.remove_lora(adapter.lora_int_id)

    def send(self, name: str, prompt: Sequence[int], adapter: Any, *, each_token: bool = False, **params: Any) -> None:
        """Begin a sequence of at least one token.

        Args:
            name: of what `step` returns.
            prompt: token ids.
            adapter: what `add` returned.
            each_token: whether each token comes by itself; else the sequence comes when it is whole.
            params: of `vllm.SamplingParams`.

        Raises:
            ValueError: for what vLLM refuses.
        """
        kind = 1 if each_token else 2  # RequestOutputKind.DELTA, FINAL_ONLY
        wanted = self._params(ignore_eos=True, detokenize=False, **params)
        wanted.output_kind = type(wanted.output_kind)(kind)
        text = {"prompt_token_ids": [int(each) for each in prompt]}
        self._engine.add_request(name, text, wanted, lora_request=adapter)

    def score(self, name: str, prompt: Sequence[int], adapter: Any, sink: Sink) -> None:
        """Have the logits of a prompt given to `sink` in parts, each with the place of the token before its first."""
        text = {"prompt_token_ids": [int(each) for each in prompt]}
        wanted = self._params(temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False)
        self._sinks[self._engine.add_request(name, text, wanted, lora_request=adapter)] = sink

    def step(self) -> list[Any]:
        """Compute a step, and return the `vllm.RequestOutput` of it; an exception ends the engine."""
        outputs: list[Any] = self._engine.step()
        return outputs

    def abort(self, names: Sequence[str]) -> None:
        """Forget sequences; nothing happens for those that have ended."""
        self._engine.abort_request(list(names))

    def _scored(self, hidden: Tensor, scheduled: Mapping[str, int]) -> dict[str, None]:
        """Stand in for `GPUModelRunner._get_prompt_logprobs_dict` after each step."""
        for id_ in [each for each in self._runner.num_prompt_logprobs if each in scheduled]:
            request = self._runner.requests[id_]
            start = request.num_computed_tokens
            rest = len(request.prompt_token_ids) - 1 - start
            first = int(self._runner.query_start_loc.np[self._runner.input_batch.req_id_to_index[id_]])
            self._give(id_, start, hidden[first : first + min(scheduled[id_], rest)], request.lora_request.lora_int_id)
            if scheduled[id_] > rest:
                del self._runner.num_prompt_logprobs[id_]
                self._sinks.pop(id_, None)
        return {}

    def _give(self, id_: str, start: int, hidden: Tensor, adapter: int) -> None:
        for row in range(0, len(hidden) if id_ in self._sinks else 0, _ROWS):
            part = hidden[row : row + _ROWS]
            rows = (adapter,) * len(part)
            manager = self._runner.lora_manager._adapter_manager  # noqa: SLF001  # see above
            manager.set_adapter_mapping(self._mapping(rows, rows, is_prefill=True))
            self._sinks[id_](start + row, self._runner.model.compute_logits(part).float())


def _arguments(base: Path, slots: int, rank: int, context: int) -> dict[str, Any]:
    return {
        "model": str(base),
        "enable_lora": True,
        "max_loras": slots,
        "max_cpu_loras": slots + 1,  # one is replaced beside its successor; none is put out, for its folder may be gone
        "max_lora_rank": rank,
        "max_model_len": context + 1,
        "max_logprobs": -1,
        "seed": secrets.randbits(31),  # of samples that have none; vLLM's default would repeat them after each start
        "async_scheduling": False,
        "skip_tokenizer_init": True,
        "disable_log_stats": True,
    }


def _on_cpu(context: int, cache: float | None) -> dict[str, Any]:
    torch.compiler.set_stance("force_eager")  # the image for CPUs has no compiler
    return {
        "dtype": "float32",
        "enforce_eager": True,
        # vLLM 0.31 ends when a prompt with a seed is split: "CPU Generator does not use offset".
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(context + 1, _BATCH),
        "max_num_seqs": 64,
        "kv_cache_memory_bytes": int((1 if cache is None else cache) * 2**30),
    }
