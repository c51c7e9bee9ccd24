"""A tenant that floods: `python -m bench.sessions.flooder URL KEY BASE` sends passes of several models without end.

It says `floods` when its models are there. What is refused because there is too much of it is sent again at once.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

import aiohttp
import orjson

from bench.sessions.loops import written

_MODELS, _AHEAD = 4, 16  # passes of each that are sent before one is waited for
_TOKENS = 128
_PROTOBUF = {"Content-Type": "application/x-protobuf"}


async def _flood(url: str, key: str, base: str) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers={"X-API-Key": key}, connector=connector) as http:
        session = (await _sent(http, "create_session", json={"sdk_version": "0.38.0"}))["session_id"]
        asked = {"session_id": session, "base_model": base, "lora_config": {"rank": 4}}
        models = [await _sent(http, "create_model", json={**asked, "model_seq_id": each}) for each in range(_MODELS)]
        for each in models:
            await _answered(http, each["request_id"])
        print("floods", flush=True)
        await asyncio.gather(*(_passes(http, str(each["model_id"])) for each in models))


async def _passes(http: aiohttp.ClientSession, model: str) -> None:
    ahead: list[str] = []
    for seq in itertools.count(1):
        answer = await _sent(http, "forward_backward", data=written(model, seq, _TOKENS), headers=_PROTOBUF)
        ahead.append(answer["request_id"])
        if len(ahead) == _AHEAD:
            await _answered(http, ahead.pop(0))


async def _answered(http: aiohttp.ClientSession, id_: str) -> None:
    while True:
        async with http.post("/api/v1/retrieve_future", json={"request_id": id_}) as answer:
            if answer.status == 200 and b"try_again" not in await answer.read():
                return


async def _sent(http: aiohttp.ClientSession, route: str, **sent: object) -> dict[str, str]:
    while True:
        async with http.post(f"/api/v1/{route}", **sent) as answer:  # type: ignore[arg-type]  # whatever aiohttp takes
            if answer.status == 200:
                return dict(orjson.loads(await answer.read()))
            if answer.status not in {429, 503}:
                raise RuntimeError(f"{route}: {answer.status}: {await answer.text()}")


if __name__ == "__main__":
    asyncio.run(_flood(*sys.argv[1:]))
