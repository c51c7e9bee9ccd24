"""What a Gateway calls an engine with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import orjson

from sessions.seam import Refused

__all__ = ["Engine", "FailedError", "LostError"]

_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=5)  # a pass may take as long as it takes


class LostError(Exception):
    """The engine does not answer, or does not know the model: it was started anew."""


class FailedError(Exception):
    """The engine failed at a request; its model there is gone."""


class Engine:
    """One engine process behind its Unix socket.

    Args:
        socket: where it listens, once it does.
    """

    def __init__(self, socket: Path) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket), limit=0), timeout=_LIMIT)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def state(self) -> dict[str, Any]:
        """Return `instance`, new for each process, and `models` with the last number of each. Raises `LostError`."""
        return dict(orjson.loads((await self._ask("GET", "/state"))[0]))

    async def train(self, model: str, seq: int, kind: str, body: bytes) -> tuple[bytes, str]:
        """Return the body of an answer and its content type. Raises `Refused`, `LostError` and `FailedError`."""
        return await self._ask("POST", f"/models/{model}/{seq}/{kind}", data=body)

    async def snapshot(self, model: str, folder: Path) -> int:
        """Have a model written with its optimizer, and return which request it is the state after."""
        answer, _ = await self._ask("POST", f"/models/{model}/snapshot", data=orjson.dumps({"folder": str(folder)}))
        return int(orjson.loads(answer)["seq"])

    async def unload(self, model: str) -> None:
        """Have a model forgotten."""
        await self._ask("DELETE", f"/models/{model}")

    async def sample(self, body: bytes, folder: str | None) -> bytes:
        """Return a `SampleResponse`. Raises `Refused`, `LostError` and `FailedError`."""
        params = {"folder": folder} if folder else {}
        return (await self._ask("POST", "/sample", data=body, params=params))[0]

    async def _ask(self, method: str, path: str, **options: Any) -> tuple[bytes, str]:
        try:
            async with self._session.request(method, f"http://engine{path}", **options) as response:
                body = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise LostError(f"the engine does not answer: {type(error).__name__}") from error
        if response.status == 200:
            return body, response.content_type
        text = (
            str(orjson.loads(body)["error"])
            if response.content_type == "application/json"
            else f"HTTP {response.status}"
        )
        if response.status == 422:
            raise Refused(text)
        if response.status in {404, 409}:
            raise LostError(text)
        raise FailedError(text)
