"""Engines as processes on this machine: started, watched and started again."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from muster.sessions.engines.client import Engine, LostError
from muster.sessions.engines.options import REFUSED
from muster.sessions.metrics import Metrics

__all__ = ["Process", "Processes"]

_LOG = logging.getLogger(__name__)
_LOOK = 0.05  # seconds between looks whether it answers
_PAUSES = (0.1, 0.5, 1, 2, 5, 10)
_LINE = 2048  # bytes at the end of a log, among which its last line is looked for


class Process:
    """One engine process that is always there, or on its way.

    Args:
        name: for the log and the files.
        folder: for its socket and its log.
        arguments: of `python -m muster.sessions.engines.process`, without the socket.
        metrics: of the Gateway.
        python: interpreter that has the packages of the engine; None is that of this process.

    Attributes:
        refused: is set when it cannot be made of its arguments, unless it was made of them before.
        refusal: why, in one sentence.
    """

    def __init__(
        self, name: str, folder: Path, arguments: Sequence[str], metrics: Metrics, python: str | None = None
    ) -> None:
        self.name, self._metrics, self._python = name, metrics, python or sys.executable
        self._folder, self._arguments = folder, arguments
        self._socket = folder / f"{name}.sock"
        self._log = folder / f"{name}.log"
        self._up, self.refused = asyncio.Event(), asyncio.Event()
        self._was_up, self.refusal = False, ""
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self.engine: Engine
        self.instance = ""

    @property
    def pid(self) -> int | None:
        """The process at the moment."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start it, for the first time or after `close`; `ready` waits until it answers."""
        self._failures, self.instance = 0, ""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.engine = Engine(self._socket, functools.partial(self._metrics.busy, self.name))
        self._task = asyncio.create_task(self._keep())

    async def ready(self) -> str:
        """Wait until it answers, and return which instance does."""
        await self._up.wait()
        return self.instance

    async def after(self, instance: str) -> None:
        """Wait until an instance that was lost has answered again, or has been followed by another."""
        while await self.ready() == instance:
            try:
                await self.engine.state()
            except LostError:
                await asyncio.sleep(_LOOK)
            else:
                return

    @property
    def is_up(self) -> bool:
        """Whether it answers at the moment."""
        return self._up.is_set()

    @property
    def waits_for(self) -> str:
        """Why it does not answer at the moment, for whoever waits; empty where it does."""
        if self.is_up:
            return ""
        if not self._failures:
            return f"the {self.name} is starting"
        return (
            f"the {self.name} ended {self._failures} times while it started; its operator finds why in {self.name}.log"
        )

    @property
    def absence(self) -> str:
        """The same in one word; empty while it answers or is not wanted."""
        if self.is_up or self._task is None:
            return ""
        return "failing" if self._failures else "starting"

    async def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        self._up.clear()
        await self._end()
        await self.engine.close()

    async def _keep(self) -> None:
        while True:
            code = await self._tried()
            self._up.clear()
            self._metrics.restarted(self.name)
            self._was_up = self._was_up or bool(self.instance)
            self._failures = 0 if self.instance else self._failures + 1
            pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)]
            self._tell(code, pause)
            self.instance = ""
            await asyncio.sleep(pause)

    def _tell(self, code: int | str, pause: float) -> None:
        """Tell why it ended, where its log does."""
        why = _last_line(self._log) if code in {1, REFUSED} and not self.instance else ""
        if code == REFUSED and not self._was_up:
            self.refusal = f"the {self.name} cannot start: {why}"
            self.refused.set()
        else:
            _LOG.warning("engine %s ended with %s; it is started again in %s s. %s", self.name, code, pause, why)

    async def _tried(self) -> int | str:
        """Run it once, and return what it ended with."""
        try:
            self._socket.unlink(missing_ok=True)
            return await self._run()
        except OSError as error:
            return str(error)

    async def _run(self) -> int:
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), "HF_HUB_OFFLINE": "1"}
        command = [
            self._python,
            "-m",
            "muster.sessions.engines.process",
            *self._arguments,
            "--socket",
            str(self._socket),
        ]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, env=environment
            )
        ended = asyncio.create_task(self._process.wait())
        while not ended.done() and not self._up.is_set():
            try:
                self.instance = (await self.engine.state())["instance"]
                self._up.set()
            except LostError:
                await asyncio.wait([ended], timeout=_LOOK)
        return await ended

    async def _end(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class Processes:
    """Both engines of a Gateway as processes of its machine.

    Args:
        folder: for their sockets and logs.
        arguments: of the engines by role.
        metrics: of the Gateway.
        pythons: interpreters by role; None is that of this process.
    """

    def __init__(
        self,
        folder: Path,
        arguments: Mapping[str, Sequence[str]],
        metrics: Metrics,
        pythons: Mapping[str, str | None],
    ) -> None:
        self.trainer, self.sampler = (
            Process(role, folder, arguments[role], metrics, pythons[role]) for role in ("trainer", "sampler")
        )

    async def start(self) -> None:
        """Start both."""
        await self.trainer.start()
        await self.sampler.start()

    async def close(self) -> None:
        """End both."""
        await asyncio.gather(self.trainer.close(), self.sampler.close())


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LINE))
        return (file.read().decode(errors="replace").strip().splitlines() or [""])[-1]
