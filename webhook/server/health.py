"""Health: liveness is cheap, readiness is tested.

`/healthz` answers while the event loop runs. `/readyz` answers 200 only when the caches are filled and this process's
own TLS port shows a certificate that the API server would accept: a webhook that is ready but cannot be reached blocks
every job of the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from aiohttp import web

__all__ = ["Check", "Health"]

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

    def drain(self) -> None:
        """Fail readiness from now on, so that no new connections arrive before the listener closes."""
        self._draining = True

    async def problems(self) -> dict[str, str]:
        """Return what is wrong, by check; remembered for two seconds, since anybody may call it."""
        if self._draining:
            return {"shutdown": "is under way"}
        now = self._clock()
        if now - self._looked >= _REMEMBERED:
            self._looked = now
            found = {name: await check() for name, check in self._checks.items()}
            self._problems = {name: problem for name, problem in found.items() if problem}
        return self._problems

    async def healthz(self, _request: web.BaseRequest) -> web.Response:
        """Answer 200 while the event loop runs."""
        return web.Response(text="ok\n")

    async def readyz(self, _request: web.BaseRequest) -> web.Response:
        """Answer 200, or 503 with one line for each problem."""
        problems = await self.problems()
        if not problems:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="".join(f"{name}: {problem}\n" for name, problem in problems.items()))
