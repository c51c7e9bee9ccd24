"""Passes of several loops at once through a Gateway with engines that do nothing, by a client that costs little.

A pass is two requests of HTTP: it is sent, and then polled until its result is there. Between them the Gateway keeps it
on disk, asks the engine and keeps the result on disk.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import orjson

from bench import figures
from bench.sessions.served import EMPTY, Served, made, serve, spent
from muster.sessions.wire.schema import messages

__all__ = ["run", "written"]

_ROUNDS = 7
_LOOPS = ((1, 60), (8, 16), (32, 8))  # how many at once, and passes of each in a round
_PROTOBUF = {"Content-Type": "application/x-protobuf"}


def run() -> None:
    """Print passes per second and the Gateway's processor time for each, by the number of loops at once."""
    with tempfile.TemporaryDirectory() as folder:
        base = made(Path(folder), empty=True)
        with serve(Path(folder) / "state", base, *EMPTY) as gateway:
            asyncio.run(_measure(gateway, str(base)))


async def _measure(gateway: Served, base: str) -> None:
    async with aiohttp.ClientSession(
        gateway.url, headers={"X-API-Key": gateway.key}, connector=aiohttp.TCPConnector(limit=0)
    ) as http:
        session = orjson.loads(await _post(http, "create_session", json={"sdk_version": "0.38.0"}))["session_id"]
        for count, passes in _LOOPS:
            models = [await _model(http, session, base, 100 * count + number) for number in range(count)]
            rates, costs, seq = [], [], 0
            for turn in range(_ROUNDS + 1):
                before, began = spent(gateway.pid), time.perf_counter()
                await asyncio.gather(*(_loop(http, each, range(seq + 1, seq + passes + 1)) for each in models))
                seq += passes
                if turn:
                    rates.append(count * passes / (time.perf_counter() - began))
                    costs.append((spent(gateway.pid) - before) / (count * passes) * 1e3)
            print(f"{count} loops: {figures.rounds(rates)} passes/s, {figures.rounds(costs)} ms of processor for each")


async def _model(http: aiohttp.ClientSession, session: str, base: str, number: int) -> str:
    asked = {"session_id": session, "model_seq_id": number, "base_model": base, "lora_config": {"rank": 4}}
    made_ = orjson.loads(await _post(http, "create_model", json=asked))
    await _result(http, made_["request_id"])
    return str(made_["model_id"])


async def _loop(http: aiohttp.ClientSession, model: str, numbers: Sequence[int]) -> None:
    for seq in numbers:
        answer = await _post(http, "forward_backward", data=written(model, seq), headers=_PROTOBUF)
        await _result(http, orjson.loads(answer)["request_id"])


async def _result(http: aiohttp.ClientSession, id_: str) -> None:
    while b"try_again" in await _post(http, "retrieve_future", json={"request_id": id_}):
        pass


async def _post(http: aiohttp.ClientSession, route: str, **sent: Any) -> bytes:
    async with http.post(f"/api/v1/{route}", **sent) as response:
        body = await response.read()
        if response.status != 200:
            raise RuntimeError(f"{route}: {response.status}: {body[:200]!r}")
        return body


def written(model: str, seq: int, tokens: int = 3) -> bytes:
    """Return a pass as the client writes it, of one sequence."""
    request = messages.ForwardBackwardRequest(model_id=model, seq_id=seq, loss_fn="cross_entropy")
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = np.ones(tokens, "<i4").tobytes()
    for name, kind, of in (("target_tokens", "<i8", messages.DTYPE_INT64), ("weights", "<f4", messages.DTYPE_FLOAT32)):
        dense = np.ones(tokens, kind).tobytes()
        datum.loss_fn_inputs[name].CopyFrom(messages.Tensor(dtype=of, shape=[tokens], dense=dense))
    return bytes(request.SerializeToString())
