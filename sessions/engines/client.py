"""What a Gateway calls an engine with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson

from muster.sessions.engines import network
from muster.sessions.seam import Refused
from muster.sessions.tenancy import HEADER, SHARE

__all__ = ["Engine", "FailedError", "LostError", "Remote", "Trained"]

_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=5)  # a pass may take as long as it takes


class LostError(Exception):
    """The engine does not answer, or does not know the model: it was started anew."""


class FailedError(Exception):
    """The engine failed at a request; its model there is gone."""


class Trained(NamedTuple):
    """What a model answered: a body, its content type, and the layout of a step that shared passes."""

    body: bytes
    form: str
    layout: str | None


class Remote(NamedTuple):
    """Where an engine answers over a network.

    Attributes:
        url: of it, such as `http://10.0.0.7:8090`.
        token: that it asks for.
        term: of the Gateway that asks; an engine listens to the latest only.
    """

    url: str
    token: str
    term: int


class Engine:
    """One engine process behind its Unix socket, or at its port.

    Args:
        place: where it listens, once it does.
        busy: is entered as long as it has work.
    """

    def __init__(self, place: Path | Remote, busy: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._busy = busy
        if isinstance(place, Remote):
            self._url = place.url
            headers = {"Authorization": f"Bearer {place.token}", network.TERM: str(place.term)}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=_LIMIT, headers=headers
            )
        else:
            self._url = "http://engine"
            self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(place), limit=0), timeout=_LIMIT)

    async def close(self) -> None:
        """Close the connections; whoever waits for an answer gets `LostError`."""
        await self._session.close()

    async def state(self) -> dict[str, Any]:
        """Return `instance`, new for each process, and `models` with the last number of each. Raises `LostError`."""
        return dict(orjson.loads(await self._ask("GET", "/state")))

    async def train(self, model: str, seq: int, kind: str, body: bytes, layout: str = "") -> Trained:
        """Return the answer of a model. Raises `Refused`, `LostError` and `FailedError`.

        Args:
            model: that is asked.
            seq: number of the request.
            kind: of it.
            body: of it.
            layout: how a step that runs again shared passes, `alone` where it did not; empty where it may share.
        """
        headers = {"Layout": layout} if layout else {}
        with self._busy():
            return await self._whole("POST", f"/models/{model}/{seq}/{kind}", data=body, headers=headers)

    async def snapshot(self, model: str, folder: Path) -> int:
        """Have a model written with its optimizer, and return which request it is the state after."""
        with self._busy():
            answer = await self._ask("POST", f"/models/{model}/snapshot", data=orjson.dumps({"folder": str(folder)}))
        return int(orjson.loads(answer)["seq"])

    async def unload(self, model: str) -> None:
        """Have a model forgotten."""
        await self._ask("DELETE", f"/models/{model}")

    async def sample(self, body: bytes, folder: str | None) -> bytes:
        """Return a `SampleResponse`. Raises `Refused`, `LostError` and `FailedError`."""
        params = {"folder": folder} if folder else {}
        with self._busy():
            return await self._ask("POST", "/sample", data=body, params=params)

    async def _ask(self, method: str, path: str, **options: Any) -> bytes:
        return (await self._whole(method, path, **options)).body

    async def _whole(self, method: str, path: str, **options: Any) -> Trained:
        if self._session.closed:
            raise LostError("the engine is gone")
        headers = {**options.pop("headers", {}), HEADER: SHARE.get().told}
        try:
            async with self._session.request(method, f"{self._url}{path}", headers=headers, **options) as response:
                body = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise LostError(f"the engine does not answer: {type(error).__name__}") from error
        if response.status == 200:
            return Trained(body, response.content_type, response.headers.get("Layout"))
        text = (
            str(orjson.loads(body)["error"])
            if response.content_type == "application/json"
            else f"HTTP {response.status}"
        )
        if response.status == 422:
            raise Refused(text)
        if response.status in {401, 404, 409}:
            raise LostError(text)
        raise FailedError(text)
