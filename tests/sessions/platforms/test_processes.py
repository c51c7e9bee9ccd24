from __future__ import annotations

import asyncio

from sessions.metrics import Metrics
from sessions.platforms.processes import Process


async def test_an_engine_whose_interpreter_is_missing_is_tried_again_and_the_reason_is_told(tmp_path):
    one = Process("trainer", tmp_path / "run", [], Metrics(), python=str(tmp_path / "python"))
    await one.start()
    try:
        async with asyncio.timeout(60):
            while "ended 2 times" not in one.waits_for:  # noqa: ASYNC110  # nothing tells of a start that failed
                await asyncio.sleep(0.01)
    finally:
        await one.close()
