"""Adapters in vLLM's server: loaded under the name of their version, and unloaded when no request uses them any more.

Source: vllm 0.31.0 entrypoints/openai/models/serving.py and v1/engine/async_llm.py. A name that is unloaded is unknown
to new requests at once. Running ones keep their adapter, which vLLM may read again from its folder; so folder and
adapter stay until the last of them has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.entrypoints.serve.lora.protocol import LoadLoRAAdapterRequest, UnloadLoRAAdapterRequest

from muster_weights import adapters, names
from muster_weights.refusals import Refused

__all__ = ["Loading"]

_LOOK = 0.05  # seconds between two looks at the requests that still use an adapter


class Loading:
    """The adapters that this server has loaded for its trainer.

    Args:
        models: vLLM's `OpenAIServingModels`.
        engine: vLLM's client of the engine.
        gone: called with a version that no worker needs any more.
    """

    def __init__(self, models: Any, engine: Any, gone: Callable[[names.Told], Awaitable[Any]]) -> None:
        self._models = models
        self._engine = engine
        self._gone = gone
        self._loaded: dict[str, names.Told] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def served(self) -> list[str]:
        """Under which adapters are served, in the order in which they were loaded."""
        return list(self._loaded)

    async def load(self, told: names.Told, path: str) -> None:
        """Load an adapter under its name; once more does no harm. Raises `Refused` where vLLM does not take it."""
        name = adapters.name_of(told)
        if self._loaded.get(name) == told:
            return
        answer = await self._models.load_lora_adapter(LoadLoRAAdapterRequest(lora_name=name, lora_path=path))
        if isinstance(answer, ErrorResponse):
            raise Refused(f"{told.text}: vLLM does not take this adapter: {answer.error.message[:500]}")
        self._loaded[name] = told

    async def keep(self, run: str | None, oldest: int) -> None:
        """Unload all adapters but those of a run from version `oldest` on; what still runs ends with its own."""
        for name, told in list(self._loaded.items()):
            if told.run != run or told.version < oldest:
                await self._unload(name)

    async def _unload(self, name: str) -> None:
        told, known = self._loaded.pop(name), self._models.lora_requests.get(name)
        await self._models.unload_lora_adapter(UnloadLoRAAdapterRequest(lora_name=name))
        if known is not None:
            task = asyncio.get_running_loop().create_task(self._end(name, told, known.lora_int_id))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end(self, name: str, told: names.Told, number: int) -> None:
        """Let the engine forget an adapter when its last request has ended."""
        while self._uses(name):  # noqa: ASYNC110  # vLLM tells nobody when a request has ended
            await asyncio.sleep(_LOOK)
        await self._engine.remove_lora(number)
        await self._gone(told)

    def _uses(self, name: str) -> bool:
        return any(each.lora_name == name for each in list(self._engine.output_processor.request_states.values()))
