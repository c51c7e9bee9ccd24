"""Waiting for a condition that sends no event, and for tasks that wait themselves."""

from __future__ import annotations

import asyncio

LIMIT = 60.0
"""Seconds; long, since it only ends a test that has failed and a machine may stall for a while."""


async def until(condition, limit=LIMIT):
    """Return once a condition holds; raises TimeoutError when it does not for `limit` seconds."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)


async def turns(count=20):
    """Let every task of the loop go as far as it goes without news."""
    for _ in range(count):
        await asyncio.sleep(0)
