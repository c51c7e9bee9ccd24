"""Health: liveness is cheap, readiness is tested.

`/healthz` answers while the event loop runs. `/readyz` answers 200 only when the caches are filled and this process's
own TLS port shows a certificate that the API server would accept: a webhook that is ready but cannot be reached blocks
every job of the cluster.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

__all__ = ["Check", "Health"]

_log = logging.getLogger(__name__)

Check = Callable[[], Awaitable[str]]
"""Returns what is wrong, or ""."""

_REMEMBERED = 2.0


class Health:
    """Answers `/healthz` and `/readyz`.

    Args:
        checks: by name; all must pass.
        clock: monotonic seconds.
    """

    def __init__(self, checks: dict[str, Check], clock: Callable[[], float] = time.monotonic) -> None:
        self._checks = checks
        self._clock = clock
        self._draining = False
        self._problems: dict[str, str] = {}
        self._looked = float("-inf")
        self._under_way: asyncio.Task[None] | None = None

    def drain(self) -> None:
        """Fail readiness from now on, so that no new connections arrive before the listener closes."""
        self._draining = True

    async def problems(self) -> dict[str, str]:
        """Return what is wrong, by check; remembered for two seconds, since anybody may call it.

        Whoever asks while the checks run gets their answer.
        """
        if self._under_way is None and not self._draining and self._clock() - self._looked >= _REMEMBERED:
            self._under_way = asyncio.create_task(self._look(), name="health checks")
        if self._under_way is not None and not self._draining:
            await asyncio.shield(self._under_way)
        return {"shutdown": "is under way"} if self._draining else self._problems

    async def _look(self) -> None:
        try:
            found = {name: await _told(name, check) for name, check in self._checks.items()}
            self._problems = {name: problem for name, problem in found.items() if problem}
            self._looked = self._clock()
        finally:
            self._under_way = None

    async def healthz(self, _request: web.BaseRequest) -> web.Response:
        """Answer 200 while the event loop runs."""
        return web.Response(text="ok\n")

    async def readyz(self, _request: web.BaseRequest) -> web.Response:
        """Answer 200, or 503 with one line for each problem."""
        problems = await self.problems()
        if not problems:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="".join(f"{name}: {problem}\n" for name, problem in problems.items()))


async def _told(name: str, check: Check) -> str:
    try:
        return await check()
    except Exception as error:  # noqa: BLE001  # a check that fails has found nothing right
        _log.exception("a check of readiness failed", extra={"check": name})
        return f"the check failed with {type(error).__name__}; the log has more"
