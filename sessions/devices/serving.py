"""An agent as a program: it begins, says that it serves, and ends when it is told to."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

from muster.sessions.devices.scrapes import Scrapes

__all__ = ["until_told"]


async def until_told(
    begin: Callable[[], Awaitable[None]],
    end: Callable[[], Awaitable[None]],
    render: Callable[[], bytes],
    metrics: tuple[str, int] | None,
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        begin: has engines come; what it raises ends the program.
        end: lets them go.
        render: returns the text of `/metrics`.
        metrics: host and port of that; None for none.
    """
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    await begin()
    scraped = await Scrapes(render).serve(*metrics) if metrics else None
    sys.stdout.write("serving\n")
    if scraped is not None:
        sys.stdout.write(f"serving metrics at port {scraped.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await ended.wait()
    if scraped is not None:
        scraped.close()
    await end()
