"""One poll for all samples of a sampling client: which of them have ended since the last one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from muster.sessions.gateway import polls
from muster.sessions.gateway.answers import body, json
from muster.sessions.gateway.state import MANAGER, own_sampler
from muster.sessions.journal.store import Row
from muster.sessions.runs import completions

__all__ = ["routes"]

routes = web.RouteTableDef()
_MOST = 8 << 20  # bytes that name the requests which were retrieved


class _Target(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: Literal["sampling_session"] = "sampling_session"
    sampling_session_id: str
    cloned_sampler_id: int = Field(default=0, ge=0, lt=2**31)


class _Poll(BaseModel):
    """`retrieve_futures`; what was retrieved goes when its time is over, as everything else."""

    model_config = ConfigDict(extra="forbid")
    target: _Target
    prev_cursor: int = Field(default=0, ge=0, lt=2**53)
    timeout: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    retrieved_request_ids: Annotated[list[str], Field(fail_fast=True)] = Field(
        default_factory=list, max_length=100_000, exclude=True
    )


@routes.post("/api/v1/retrieve_futures")
async def retrieve_futures(request: web.Request) -> web.Response:
    """Answer the ends after a cursor, as soon as there is one, and the next cursor."""
    asked = await body(request, _Poll, _MOST)
    sampler = (await own_sampler(request, asked.target.sampling_session_id))["id"]
    limit = request.app[MANAGER].context.config.limits.poll
    until = asyncio.get_running_loop().time() + (limit if asked.timeout is None else min(asked.timeout, limit))
    found = await _ends(request, sampler, asked, until)
    cursor = found[-1]["number"] if found else asked.prev_cursor
    return json({"completions": [_completion(row) for row in found], "cursor": cursor})


async def _ends(request: web.Request, sampler: str, asked: _Poll, until: float) -> list[Row]:
    """Return the next ends, for which it waits until a time of the loop's clock."""
    context, loop = request.app[MANAGER].context, asyncio.get_running_loop()
    while True:
        event = context.futures.watch(sampler)
        try:
            clone = asked.target.cloned_sampler_id
            found = await completions.since(context.journal, sampler, clone, asked.prev_cursor)
            if found or loop.time() >= until:
                return found
            with polls.waiting(request), suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await event.wait()
        finally:
            context.futures.leave(sampler, event)


def _completion(row: Row) -> dict[str, Any]:
    if row["size"] is None:
        return {"state": "failed", "request_id": row["request"]}
    return {"state": "finished", "request_id": row["request"], "response_payload_uncompressed_size": row["size"]}
