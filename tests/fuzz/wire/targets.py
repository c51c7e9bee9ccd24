"""The programs that are attacked: `muster serve` and `muster audit serve`, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import ssl
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support import trails, waits

__all__ = ["Target", "pages", "webhook"]

ROOT = Path(__file__).parents[3]
_ENDED = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")
_BEGUN = 600.0  # seconds; a busy machine imports slowly
_PATIENCE = {"requestTimeout": 30, "slowTimeout": 20}  # a busy machine answers slowly


@dataclass
class Target:
    """A program that runs.

    Attributes:
        port: where it listens on loopback.
        process: the program.
        folder: has its logs.
        context: trusts it; None for plain HTTP.
    """

    port: int
    process: subprocess.Popen
    folder: Path
    context: ssl.SSLContext | None = None

    def opened(self):
        """What its open descriptors are, counted by sort."""
        found = Counter()
        for each in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found[str(each.readlink()).partition(":")[0]] += 1
        return found

    def processor(self):
        """The seconds of processor time that it has taken."""
        told = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / _TICKS

    def memory(self):
        """The most memory that it has had, in MiB."""
        told = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", told)[1]) / 1024

    def logged(self):
        """The lines of the process's own log, and what else it wrote to stderr."""
        return (self.folder / "stderr").read_bytes().splitlines()

    def recorded(self):
        """The lines of the audit log."""
        path = self.folder / "audit.log"
        return path.read_bytes().splitlines() if path.exists() else []


@contextlib.asynccontextmanager
async def webhook(folder):
    """Run the service with a certificate of its own and objects from files; ended with the block."""
    config = {
        "server": {"host": "127.0.0.1", "port": 0, "readinessDelay": 0, "shutdownGrace": 1, **_PATIENCE},
        "tls": {"selfSigned": True, "directory": str(folder)},
        "cluster": {"source": "files", "files": [str(ROOT / "manifests" / "runtimes")]},
        "audit": {"stdout": False, "file": {"path": str(folder / "audit.log"), "maxBytes": 2**30}},
    }
    path = folder / "muster.yaml"
    path.write_text(yaml.safe_dump(config))
    async with _running(folder, ["serve", "--config", str(path)]) as process:
        port = await _until_told(process, lambda: _said(folder, "serving"))
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        yield Target(port, process, folder, context)


def _said(folder, message):
    for line in (folder / "stderr").read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            if told.get("message") == message:
                return told["port"]
    return None


@contextlib.asynccontextmanager
async def pages(folder, *options):
    """Run the pages of a log of real decisions."""
    log = folder / "audit.log"
    log.write_bytes(b"".join(trails.lines(trails.decisions())))
    async with _running(folder, ["audit", "serve", "--port", "0", *options, str(log)]) as process:
        port = await _until_told(process, lambda: _address(folder))
        yield Target(port, process, folder)


def _address(folder):
    found = re.search(rb":(\d+)/\s", (folder / "stdout").read_bytes())
    return int(found[1]) if found else None


@contextlib.asynccontextmanager
async def _running(folder, words):
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen([sys.executable, "-m", "muster", *words], stdout=out, stderr=err, cwd=ROOT)  # noqa: ASYNC220  # it starts at once, and nothing else runs yet
    try:
        yield process
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _ENDED)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)


async def _until_told(process, told):
    found = []

    def known():
        if process.poll() is not None:
            raise AssertionError(f"the program ended with {process.returncode}")
        value = told()
        found.append(value)
        return value is not None

    await waits.until(known, _BEGUN)
    return found[-1]
