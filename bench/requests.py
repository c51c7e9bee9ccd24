"""What one HTTPS request costs `muster serve`, with TLS, audit file and metrics on, pinned to one core.

The load runs in this process on the other core; the server is the real command in its own process.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench import clients, figures, reviews

__all__ = ["port_of", "resident", "run", "start"]

_ROUNDS, _SECONDS = 5, 3.0


def run() -> None:
    """Print requests per second, latency, CPU per request and RSS."""
    with tempfile.TemporaryDirectory() as folder:
        server = start(Path(folder))
        try:
            _measure(server, Path(folder))
        finally:
            server.terminate()
            server.wait(10)


def start(folder: Path, root: Path | None = None) -> subprocess.Popen[str]:
    """Start `muster serve` on a free port of loopback, with a certificate of its own in `folder/tls`.

    Args:
        folder: for its files.
        root: the checkout whose code it runs; None for this one.
    """
    config = {
        "server": {"host": "127.0.0.1", "port": 0, "readinessDelay": 0},
        "tls": {"selfSigned": True, "directory": str(folder / "tls")},
        "cluster": {"source": "files", "files": [str(reviews.RUNTIMES), str(folder / "cluster.yaml")]},
        "audit": {"stdout": False, "file": {"path": str(folder / "audit.log")}},
    }
    (folder / "muster.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "cluster.yaml").write_text(reviews.cluster_yaml(), encoding="utf-8")
    command = [sys.executable, "-m", "muster", "serve", "--config", str(folder / "muster.yaml")]
    pin = (lambda: os.sched_setaffinity(0, {0})) if len(os.sched_getaffinity(0)) > 1 else None
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=pin, cwd=root)  # noqa: S603, PLW1509  # our own command, before any thread


def port_of(server: subprocess.Popen[str]) -> int:
    """Wait until it serves; return its port.

    Raises:
        RuntimeError: it ended before.
    """
    for line in server.stderr or ():
        message = yaml.safe_load(line)
        if message.get("message") == "serving":
            return int(message["port"])
    raise RuntimeError("muster serve ended before it was ready")


def _measure(server: subprocess.Popen[str], folder: Path) -> None:
    port = port_of(server)
    if len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    context = ssl.create_default_context(cafile=str(folder / "tls" / "ca.crt"))
    print(f"muster serve on one core, TLS, audit file, metrics; {_ROUNDS} rounds of {_SECONDS:g} s, median [low..high]")
    print(f"{'what':22} {'conns':>5} {'requests/s':>24} {'p50 ms':>20} {'p99 ms':>20} {'CPU us/request':>22}")
    for name, path, body in (
        ("TrainJob, mutate", "/mutate/trainjobs", reviews.trainjob_review()),
        ("TrainJob, validate", "/validate/trainjobs", reviews.as_mutated(reviews.trainjob_review())),
        ("JobSet, mutate", "/mutate/jobsets", reviews.jobset_review()),
    ):
        for connections in (1, 16):
            _row(server.pid, name, (port, path, body), connections, context)
    print(f"resident memory of the server afterwards: {resident(server.pid):.0f} MiB")


def _row(pid: int, name: str, target: tuple[int, str, bytes], connections: int, context: ssl.SSLContext) -> None:
    rates, halves, tails, costs = [], [], [], []
    for _ in range(_ROUNDS):
        spent = _cpu(pid)
        load = _drive(*target, connections, context)
        rates.append(load.rate)
        halves.append(figures.percentile(load.latencies, 0.5) * 1e3)
        tails.append(figures.percentile(load.latencies, 0.99) * 1e3)
        costs.append((_cpu(pid) - spent) / len(load.latencies) * 1e6)
    cells = [str(figures.rounds(values)) for values in (rates, halves, tails, costs)]
    print(f"{name:22} {connections:5} {cells[0]:>24} {cells[1]:>20} {cells[2]:>20} {cells[3]:>22}")


def _drive(port: int, path: str, body: bytes, connections: int, context: ssl.SSLContext) -> clients.Load:
    load = clients.drive(port, path, body, connections=connections, seconds=_SECONDS, context=context)
    result = asyncio.run(load)
    time.sleep(0.1)
    return result


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
