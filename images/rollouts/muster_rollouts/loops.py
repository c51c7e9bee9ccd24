"""The loop of TRL's rollout worker, behind a gate: it runs in the child process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from trl.experimental.async_grpo.async_rollout_worker import RolloutGroup, RolloutSample, _AsyncRolloutLoop

from muster_rollouts.advantages import unscaled
from muster_rollouts.counts import Counts
from muster_rollouts.gate import Gate

__all__ = ["GatedLoop"]

_LOOK = 0.02  # seconds between looks at what the trainer did


class GatedLoop(_AsyncRolloutLoop):  # type: ignore[misc]  # TRL has no types
    """Starts a group when the gate lets it, and hands a finished one over when no older one becomes late by it.

    Args:
        max_staleness: of AsyncGRPOConfig.
        scale_advantages: whether advantages are divided by the standard deviation of their group.
        arguments: of TRL's loop.
    """

    def __init__(self, *, max_staleness: int, scale_advantages: bool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._counts: Counts = self._model_version_value
        self._scales = scale_advantages
        self._gate: Gate[list[RolloutSample]] = Gate(self.num_generations, max_staleness)
        self._starts = asyncio.Lock()
        self._begun: dict[int, int] = {}

    async def _generate_loop(self, stop_event: asyncio.Event) -> None:
        """Generate until the trainer stops the worker, and end then at once, with what still runs."""
        running = asyncio.create_task(super()._generate_loop(stop_event))
        stopping = asyncio.create_task(stop_event.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not running.done():
            running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    async def _generate_one(self, *arguments: Any, group_id: int = 0, **named: Any) -> Any:
        if group_id not in self._begun:
            await self._start(group_id)
        return await super()._generate_one(*arguments, group_id=group_id, **named)

    async def _start(self, group: int) -> None:
        """Wait until a group may start, in the order in which they came; its first completion waits for all of it."""
        async with self._starts:
            while group not in self._begun:
                progress = self._counts.read()
                if self._gate.may_start(progress):
                    self._gate.start(group, progress.version)
                    self._begun[group] = progress.version
                else:
                    await asyncio.sleep(_LOOK)

    async def _score_group(self, group: RolloutGroup) -> list[RolloutSample]:
        """Score a group, and return the samples of all groups that may go to the trainer now."""
        # TRL notes the version when it makes the tasks of a group, which wait at the gate afterwards.
        group.model_version = self._begun.pop(group.group_id)
        samples = await super()._score_group(group)
        self._gate.finish(group.group_id, len(samples), samples if self._scales else unscaled(samples))
        return [sample for delivered in self._gate.deliver(self._counts.read()) for sample in delivered]
