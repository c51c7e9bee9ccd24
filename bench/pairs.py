"""Two checkouts beside each other: `OTHER=/path/of/another/checkout python -m bench pairs`.

Both serve at the same time, and get the same requests in turns, so that a busy machine is as busy for one as for the
other. What counts is processor time by the scheduler's own account, of all threads of a server; what is told is the
median of the ratios of neighbours. The requests come as the API server's do, in pieces of 4 KiB.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import figures, requests, reviews

__all__ = ["Server", "costs", "run"]

_ROUNDS, _REQUESTS, _PIECE = 9, 400, 4096
_CASES = {
    "TrainJob, mutate": ("/mutate/trainjobs", reviews.trainjob_review()),
    "TrainJob, validate": ("/validate/trainjobs", reviews.as_mutated(reviews.trainjob_review())),
    "JobSet, mutate": ("/mutate/jobsets", reviews.jobset_review()),
    "JobSet, validate": ("/validate/jobsets", reviews.as_mutated(reviews.jobset_review())),
}


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a process of its own, and how it is spoken to."""

    process: subprocess.Popen[str]
    port: int
    context: ssl.SSLContext

    def spent(self) -> float:
        """Return the microseconds that all its threads have run, and those of the processes that it started."""
        tasks = (each for pid in _family(self.process.pid) for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))
        return sum(int(each.read_text(encoding="ascii").split()[0]) for each in tasks) / 1e3


def _family(pid: int) -> Iterator[int]:
    yield pid
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in each.read_text(encoding="ascii").split():
            yield from _family(int(child))


def run() -> None:
    """Print the processor time of a request in both checkouts, and the ratio of this one to the other."""
    other = os.environ.get("OTHER")
    if not other:
        raise SystemExit("name another checkout of Muster: OTHER=/path python -m bench pairs")
    with tempfile.TemporaryDirectory() as folder:
        servers = [_started(Path(root), Path(folder, name)) for root, name in ((other, "other"), (Path.cwd(), "this"))]
        try:
            _measure(servers)
        finally:
            for each in servers:
                each.process.terminate()
                each.process.wait(30)


def _started(root: Path, folder: Path) -> Server:
    folder.mkdir()
    process = requests.start(folder, root)
    port = requests.port_of(process)
    return Server(process, port, ssl.create_default_context(cafile=str(folder / "tls" / "ca.crt")))


def _measure(servers: list[Server]) -> None:
    print(f"processor time of all threads, us/request; {_ROUNDS} rounds of {_REQUESTS}, median [low..high]")
    print(f"{'what':20} {'conns':>5} {'other':>22} {'this':>22} {'ratio':>18}")
    for name, (path, body) in _CASES.items():
        for connections in (1, 16):
            for each in servers:
                costs(each, path, body, connections)
            pairs = [[costs(each, path, body, connections) for each in servers] for _ in range(_ROUNDS)]
            others, these = zip(*pairs, strict=True)
            ratios = figures.rounds([this / other for other, this in pairs])
            cells = [str(figures.rounds(list(values))) for values in (others, these)]
            print(f"{name:20} {connections:5} {cells[0]:>22} {cells[1]:>22} {ratios!s:>18}", flush=True)
    print("resident MiB:", ", ".join(f"{requests.resident(each.process.pid):.0f}" for each in servers))


def costs(server: Server, path: str, body: bytes, connections: int) -> float:
    """Return the microseconds of processor time that a request costs."""
    before = server.spent()
    asyncio.run(_load(server, path, body, connections))
    time.sleep(0.1)  # its log is written a little later
    return (server.spent() - before) / _REQUESTS


async def _load(server: Server, path: str, body: bytes, connections: int) -> None:
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\nHost: muster\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\r\n"
    )
    wire = head.encode() + body
    await asyncio.gather(*(_connection(server, wire, _REQUESTS // connections) for _ in range(connections)))


async def _connection(server: Server, wire: bytes, count: int) -> None:
    context = server.context
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname="localhost")
    for _ in range(count):
        for start in range(0, len(wire), _PIECE):
            writer.write(wire[start : start + _PIECE])
        told = await reader.readuntil(b"\r\n\r\n")
        length = int(told.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if b'"allowed":true' not in await reader.readexactly(length):
            raise RuntimeError(f"unexpected answer: {told[:60]!r}")
    writer.close()
    await writer.wait_closed()
