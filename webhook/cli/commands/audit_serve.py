"""`muster audit serve`: the pages of `webhook.pages`, until interrupted."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from webhook.audit.log import files
from webhook.cli import problems
from webhook.cli.problems import CommandError
from webhook.kubeyaml import sources
from webhook.pages import serving
from webhook.pages.shelves import Shelf

__all__ = ["serve"]

_MAX_LOGS = 64


def serve(names: Sequence[str], host: str, port: int) -> int:
    """Serve logs at an address; the URL is printed as soon as it answers.

    Raises:
        CommandError: a log cannot be read, or the address cannot be bound.
    """
    shelf = Shelf(_paths(names))
    if not 0 <= port <= 65535:
        raise CommandError(f"--port: {port} is not a TCP port; give a number from 0 to 65535")
    if not _is_loopback(host):
        print(f"muster: everyone who can reach {host} can read this log; there is no login", file=sys.stderr)
    asyncio.run(_serve(shelf, host, port))
    return problems.CLEAN


async def _serve(shelf: Shelf, host: str, port: int) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    server = serving.PageServer(shelf, host)
    try:
        bound = await server.open(port)
    except OSError as error:
        raise CommandError(f"{host}:{port}: muster cannot listen there: {error.strerror or error}") from error
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{bound}/", flush=True)
    await stop.wait()
    await server.close()


def _paths(names: Sequence[str]) -> list[Path]:
    if sources.STDIN in names:
        raise CommandError("-: standard input cannot be served; write it to a file and serve that one")
    runs = {name: (files.rotated(Path(name)) or [Path(name)]) for name in dict.fromkeys(names)}
    # Rotated files that are named too (`audit.log*`) are shown once.
    kept = [name for name, run in runs.items() if not any(set(run) < set(other) for other in runs.values())]
    if len(kept) > _MAX_LOGS:
        raise CommandError(f"{len(kept)} logs were given; at most {_MAX_LOGS} can be served together")
    for each in (file for name in kept for file in runs[name]):
        if each.exists() and not each.is_file():
            raise CommandError(f"{each}: is not a regular file; copy the log into one")
        files.opened(each).close()  # raises the reason when it cannot be read
    return [Path(name) for name in kept]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
