"""The agent of one device: `python -m muster.sessions.devices.agent`, to which engines come over a Unix socket.

It keeps the clock of the lease, measures who has memory, ends engines that hang or lie, and keeps a note of its engines
on disk, so that after its own end the next agent grants nothing before it has heard of each, or ended it.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from muster.sessions.devices import lines, processes
from muster.sessions.devices.clocks import Driver, Times
from muster.sessions.devices.figures import Figures, exposition
from muster.sessions.devices.holders import Holders
from muster.sessions.devices.lease import (
    Action,
    Asked,
    Died,
    Done,
    Engine,
    Event,
    Gone,
    Grant,
    Joined,
    Lease,
    Leave,
    Left,
    Measured,
    Phase,
)
from muster.sessions.devices.memory import Device, DeviceError, device
from muster.sessions.devices.serving import until_told
from muster.sessions.devices.spans import LOGGER, Spans

__all__ = ["Agent", "Caller", "add", "bytes_of", "locked", "main", "times"]

_LOG = logging.getLogger(__name__)
_SPANS = logging.getLogger(LOGGER)
_CONNECTIONS = 256
_UNREAD = 1 << 16  # bytes that an engine may leave unread
_LOOK, _SOON = 5.0, 0.05  # seconds between measurements, and while somebody waits for the memory to be free


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of an engine from elsewhere than its own word.

    Attributes:
        pod: that it runs in; empty where there are none.
        uid: of the pod, which becomes a part of the engine's name, and so of its group on a budget.
        tenant: whose sessions its session is one of, so that no other has the same; empty where all are one's own.
    """

    pod: str = ""
    uid: str = ""
    tenant: str = ""


_ANYBODY = Caller()


@dataclass(slots=True)
class _Known:
    """An engine whose process lives, connected or not."""

    process: processes.Process
    caller: Caller = _ANYBODY
    join: lines.Join | None = None
    writer: asyncio.StreamWriter | None = None


class Agent:
    """Serves one device.

    Args:
        device: whose memory is shared.
        socket: that `listen` makes; notes and a lock are beside it.
        times: how long things may last.
        host: bytes of host memory that all engines together may keep while they are away; None for any.
        name: of the device, in the log; that of the socket by default.

    Attributes:
        driver: of the lease.
        figures: what was counted for Prometheus.
        holders: what was counted for people.
    """

    def __init__(
        self, device: Device, socket: Path, times: Times | None = None, host: int | None = None, name: str = ""
    ) -> None:
        self._device, self._socket, self._host = device, socket, host
        self._name = name or socket.name
        self._times = times or Times()
        self._notes = socket.with_name(f"{socket.name}.engines")
        self._known: dict[str, _Known] = {}
        self._connections = 0
        self._changed = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._lock: IO[str] | None = None
        self.driver: Driver
        self.figures: Figures
        self.holders: Holders
        self._spans: Spans

    def start(self) -> None:
        """Take over the device. Raises `DeviceError` where another agent has it, or it cannot be used."""
        self._lock = locked(self._socket)
        self._device.open()
        self._recall()
        self.driver = Driver(self._times, self._now(), frozenset(self._known))
        self.figures, self.holders = Figures(self._now()), Holders()
        self._spans = Spans(self._name, self._now())
        for name, known in self._known.items():
            self._watch(name, known)
        self._measuring = asyncio.create_task(self._measure())
        self._set_alarm()

    async def listen(self) -> None:
        """Have engines come to the socket, which is of its owner alone."""
        self._socket.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self.met, self._socket, limit=lines.LONGEST)
        finally:
            os.umask(before)

    async def close(self) -> None:
        """End without ending any engine: they notice, and join the next agent."""
        if self._measuring is not None:
            self._measuring.cancel()
            with suppress(asyncio.CancelledError):
                await self._measuring
        if self._alarm is not None:
            self._alarm.cancel()
        if self._server is not None:
            self._server.close()
        for known in self._known.values():
            asyncio.get_running_loop().remove_reader(known.process.descriptor)
            known.process.close()
            if known.writer is not None:
                known.writer.close()
        self._known.clear()
        if self._lock is not None:
            self._lock.close()

    def _recall(self) -> None:
        """Read which engines the former agent had, and open those that live."""
        try:
            noted = json.loads(self._notes.read_text())
        except FileNotFoundError:
            return
        for name, (pid, start) in noted.items():
            process = processes.opened(pid, start)
            if process is not None:
                self._known[name] = _Known(process)

    def _note(self) -> None:
        beside = self._notes.with_name(f"{self._notes.name}.part")
        beside.write_text(
            json.dumps({name: [each.process.pid, each.process.start] for name, each in self._known.items()})
        )
        beside.rename(self._notes)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _tell(self, event: Event) -> None:
        """Tell the lease what happened, and do what follows."""
        before, now = self.driver.lease, self._now()
        self.figures.count(before, now)
        actions = self.driver.tell(event, now)
        after = self.driver.lease
        self.holders.count(before, after, time.time())
        if span := self._spans.count(before, after, now, time.time()):
            _SPANS.info("%s", span.line())
        self._act(actions)
        if (before.phase, before.number) != (after.phase, after.number):
            self._changed.set()
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        at = self.driver.next()
        self._alarm = asyncio.get_running_loop().call_at(at, self._rung) if at < float("inf") else None

    def _rung(self) -> None:
        event = self.driver.late(self._now())
        if event is None:
            self._set_alarm()
        else:
            self._tell(event)

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            known = self._known.get(action.name)
            if known is None:
                _LOG.error(
                    "%s has memory on the device and is not an engine: nobody gets it until it is free", action.name
                )
            elif isinstance(action, Grant):
                self._grant(action, known)
            elif isinstance(action, Leave):
                self._write(known, lines.line("leave", action.number))
            else:
                _LOG.warning("engine %s is ended: it is gone, hangs, or has memory that is not its own", action.name)
                self.figures.ended += 1
                known.process.end()

    def _grant(self, action: Grant, known: _Known) -> None:
        try:
            self._device.enter(action.name, known.process.pid)
        except DeviceError:
            _LOG.exception("engine %s cannot have the device, and is ended", action.name)
            known.process.end()
            return
        self.figures.grants += 1
        self._write(known, lines.line("grant", action.number))

    @staticmethod
    def _write(known: _Known, text: bytes) -> None:
        """Write to an engine; one that is gone, or reads nothing, is found by its end or by the clock."""
        writer = known.writer
        if writer is None or writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > _UNREAD:
            writer.close()
            return
        writer.write(text)

    async def met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller = _ANYBODY) -> None:
        """Speak with an engine until it has gone.

        Args:
            reader: of its connection.
            writer: of its connection, which is closed at the end.
            caller: what is known of it.
        """
        self._connections += 1
        name = ""
        try:
            self._bound()
            async with asyncio.timeout(self._times.leaving):
                name = await self._introduced(reader, writer, caller)
            while name and (text := await reader.readline()):
                self._heard(name, *lines.word(text))
        except ValueError as error:
            writer.write(lines.line("refused", str(error)))
        except (OSError, asyncio.CancelledError):  # it has not joined in time, or the agent ends
            pass
        finally:
            self._connections -= 1
            self._cut(name, writer)
            writer.close()

    def _bound(self) -> None:
        if self._connections > _CONNECTIONS:
            raise ValueError(f"the agent has {_CONNECTIONS} connections: close some")

    def _cut(self, name: str, writer: asyncio.StreamWriter) -> None:
        known = self._known.get(name)
        if known is not None and known.writer is writer:
            known.writer = known.join = None
            self._tell(Gone(name))

    async def _introduced(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller) -> str:
        """Return how an engine that joined is called; empty for whoever wants something else. Raises `ValueError`."""
        pid = processes.caller(writer.get_extra_info("socket"))
        while text := await reader.readline():
            match lines.word(text):
                case "status", _:
                    writer.write(lines.line("status", self.status()))
                    return ""
                case "moving", _:
                    self._device.leave(pid)
                    writer.write(lines.line("moved"))
                case "join", value:
                    return self._joined(pid, lines.Join.read(value), writer, caller)
                case name, _:
                    raise ValueError(f"{name[:20]!r} before join: send join first")
        return ""

    def _joined(self, pid: int, join: lines.Join, writer: asyncio.StreamWriter, caller: Caller) -> str:
        process = processes.opened(pid)
        if process is None:
            raise ValueError("join: your process cannot be seen from here")
        name = f"{join.role}.{pid}.{process.start}{f'.pod{caller.uid}' if caller.uid else ''}"
        known = self._known.get(name)
        kept = join.host + sum(each.join.host for each in self._known.values() if each.join)
        refusal = self._refusal(name, known, kept)
        if refusal:
            process.close()
            raise ValueError(refusal)
        if known is None:
            known = self._known[name] = _Known(process)
            self._note()
            self._watch(name, known)
        else:
            process.close()
        known.join, known.writer, known.caller = join, writer, caller
        self._device.leave(pid)
        self._write(known, lines.line("joined", name))
        session = f"{caller.tenant}/{join.session}" if caller.tenant else join.session
        self._tell(Joined(Engine(name, session, join.weight)))
        return name

    def _refusal(self, name: str, known: _Known | None, kept: int) -> str:
        if known is not None and known.writer is not None:
            return "join: your process has joined already: use that connection"
        if name in self.driver.lease.ending:
            return "join: your process is being ended"
        if self._host is not None and kept > self._host:
            return f"join.host: all engines together would keep {kept} bytes in host memory, of {self._host}: end some"
        return ""

    def _heard(self, name: str, what: str, value: Any) -> None:
        number = value if isinstance(value, int) else -1
        match what:
            case "ask":
                self._tell(Asked(name))
            case "done":
                self._tell(Done(name, number))
            case "left":
                self._tell(Left(name, number))
            case "moving":
                if known := self._known.get(name):
                    self._device.leave(known.process.pid)
                    self._write(known, lines.line("moved"))
            case _:
                raise ValueError(f"{what[:20]!r} is not a word of an engine")

    def _watch(self, name: str, known: _Known) -> None:
        asyncio.get_running_loop().add_reader(known.process.descriptor, self._died, name)

    def _died(self, name: str) -> None:
        known = self._known.pop(name)
        asyncio.get_running_loop().remove_reader(known.process.descriptor)
        known.process.close()
        self._note()
        self._device.forget(name)
        self._tell(Died(name))

    async def _measure(self) -> None:
        """Look who has memory, again and again: often while somebody waits for it to be free."""
        while True:
            lease = self.driver.lease
            engines = {each.process.pid: name for name, each in self._known.items()}
            try:
                users = await asyncio.to_thread(self._device.users, engines)
            except (DeviceError, OSError):
                _LOG.exception("nobody gets the device until it can be measured")
            else:
                now = self.driver.lease
                if (lease.phase, lease.number) != (now.phase, now.number):
                    continue  # it may be of the time before, which proves nothing
                self._tell(Measured(users))
            pause = _SOON if self.driver.lease.phase is Phase.VERIFYING else _LOOK
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    def counted(self) -> tuple[Figures, Lease]:
        """Return what was counted until now for Prometheus, with the state."""
        self.figures.count(self.driver.lease, self._now())
        return self.figures, self.driver.lease

    def pod(self, name: str) -> str:
        """Return the pod of an engine; its own name where that is not known."""
        known = self._known.get(name)
        return known.caller.pod if known and known.caller.pod else name

    def knows(self, pid: int) -> Caller | None:
        """Return what is known of a process that is an engine here; None where it is none."""
        start = processes.started(pid)
        same = (each for each in self._known.values() if (each.process.pid, each.process.start) == (pid, start))
        return next((each.caller for each in same), None)

    def status(self) -> dict[str, Any]:
        """Return what the device is at, for people."""
        lease = self.driver.lease
        return {
            "phase": lease.phase,
            "holder": lease.resident.name if lease.resident else None,
            "since": self.holders.since,
            "changes": self.holders.changes,
            "turns": dict(self.holders.turns),
            "session": lease.session,
            "turn": lease.turn,
            "grants": self.figures.grants,
            "waiting": list(lease.waiting),
            "engines": {each.name: each.session for each in lease.engines},
            "ending": sorted(lease.ending),
        }


def locked(socket: Path) -> IO[str]:
    """Return what keeps other agents from a socket until it is closed. Raises `DeviceError` where one has it."""
    lock = socket.with_name(f"{socket.name}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise DeviceError(f"--socket: {socket}: another agent serves it: end that one first") from error
    return lock


def main() -> int:
    """Serve a device until SIGTERM; 2 where that cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m muster.sessions.devices.agent", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--device", required=True, metavar="DEVICE", help="nvidia:UUID or budget:NAME:MEBIBYTES")
    add(parser)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        made = device(args.device, bytes_of(args.kept))
        agent = Agent(made, args.socket, times(args), bytes_of(args.host), args.device)
        asyncio.run(_serve(agent, args.device, args.metrics))
    except (DeviceError, OSError) as error:
        sys.stderr.write(f"sessions: {error}\n")
        return 2
    return 0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options that agents of one device and of a node have."""
    parser.add_argument("--socket", type=Path, required=True, metavar="FILE", help="Unix socket to make")
    parser.add_argument("--host", type=int, metavar="MEBIBYTES", help="that engines may keep in host memory; any")
    what = "that an engine may keep on the device while it is away; 1024 on a GPU, 48 of a budget"
    parser.add_argument("--kept", type=int, metavar="MEBIBYTES", help=what)
    what = "address of /metrics, for Prometheus; none by default"
    parser.add_argument("--metrics", type=_address, metavar="HOST:PORT", help=what)
    for name, default in (("turn", 40.0), ("idle", 0.05), ("leaving", 60.0), ("freeing", 10.0)):
        parser.add_argument(
            f"--{name}", type=float, default=default, metavar="SECONDS", help=f"{default:g}; docs/sharing.md"
        )


def times(args: argparse.Namespace) -> Times:
    """Return how long things may last, of what `add` added."""
    return Times(args.turn, args.idle, args.leaving, args.freeing)


def bytes_of(mebibytes: int | None) -> int | None:
    """Return an amount of the command line; None where it was left out."""
    return None if mebibytes is None else mebibytes << 20


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port[:6]) > 65535:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a HOST:PORT such as 127.0.0.1:9091")
    return host.strip("[]"), int(port)


async def _serve(agent: Agent, name: str, metrics: tuple[str, int] | None) -> None:
    async def begin() -> None:
        agent.start()
        await agent.listen()

    await until_told(begin, agent.close, lambda: exposition({name: agent.counted()}), metrics)


if __name__ == "__main__":
    sys.exit(main())
