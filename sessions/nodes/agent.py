"""The agent of a node, `python -m muster.sessions.nodes.agent`: the engines in its pods come to it over one socket.

It finds the device of each engine by its pod's claim, has the lease of that device (`muster.sessions.devices`) decide
who may use it, and tells on the claim who does. A device has its lease from the first engine on.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from muster.kube.authentication import ACCOUNT, Credentials, address, of_account
from muster.sessions.devices import agent, lines, processes
from muster.sessions.devices.agent import Agent, Caller
from muster.sessions.devices.clocks import Times
from muster.sessions.devices.figures import exposition
from muster.sessions.devices.memory import Device, DeviceError, device
from muster.sessions.devices.serving import until_told
from muster.sessions.nodes import notices
from muster.sessions.nodes.claims import LABEL, Claim, Place, claim_of, pod_of, uuid_of
from muster.sessions.platforms.api import Api, ApiError, UnreachableError

__all__ = ["Node", "main"]

_LOG = logging.getLogger(__name__)
_TELL = 10.0  # seconds between two notices of a device, at least
_STILL = 60.0  # seconds until one that says the same is written again: its age shows whether the agent lives
_PAUSE = 2.0  # seconds until an engine that could not be placed may come again
_CONNECTIONS = 256


class NoClaimError(ValueError):
    """An engine has no device here, and never will; says why."""


@dataclass(slots=True)
class _Leased:
    """A device with its lease, and the claims that have it by their uid."""

    agent: Agent
    claims: dict[str, Claim] = field(default_factory=dict)
    last: Mapping[str, Any] | None = field(default_factory=dict)  # what was told last; of a former agent, it is unknown
    at: float = float("-inf")


class Node:
    """Serves the devices of one node.

    Args:
        apis: to the API server, by namespace of engines.
        make: returns a device of an allocation. Raises `DeviceError`, and what `Api` raises.
        socket: to make, for the group of its folder; notes and locks are beside it.
        times: how long things may last.
        host: bytes of host memory that all engines of one device may keep while they are away; None for any.
        tell: seconds between two notices of a device.
    """

    def __init__(  # noqa: PLR0913  # each is its own
        self,
        apis: Mapping[str, Api],
        make: Callable[[Place], Awaitable[Device]],
        socket: Path,
        times: Times | None = None,
        host: int | None = None,
        tell: float = _TELL,
    ) -> None:
        self._apis, self._make, self._socket = apis, make, socket
        self._times, self._host, self._tell = times, host, tell
        self._leased: dict[Place, _Leased] = {}
        self._placing = asyncio.Lock()
        self._connections = 0
        self._lock: IO[str] | None = None
        self._server: asyncio.Server | None = None
        self._telling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make the socket, and begin to tell. Raises `DeviceError` where another agent has it, `OSError`."""
        self._lock = agent.locked(self._socket)
        self._socket.unlink(missing_ok=True)
        before = os.umask(0o117)
        try:
            self._server = await asyncio.start_unix_server(self._met, self._socket, limit=lines.LONGEST)
        finally:
            os.umask(before)
        group = self._socket.parent.stat().st_gid  # the engines'
        if group != self._socket.stat().st_gid:
            os.chown(self._socket, -1, group)
        self._telling = asyncio.create_task(self._keep_telling())

    async def close(self) -> None:
        """End without ending any engine: they notice, and join the next agent."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for each in self._leased.values():
            await each.agent.close()
        for api in self._apis.values():
            await api.close()
        if self._lock is not None:
            self._lock.close()

    def metrics(self) -> bytes:
        """Return what Prometheus reads."""
        return exposition(
            {f"{place.pool}/{place.device}": each.agent.counted() for place, each in self._leased.items()}
        )

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            self._bound()
            leased, caller = await self._placed(processes.caller(writer.get_extra_info("socket")))
        except NoClaimError as error:
            writer.write(lines.line("refused", str(error)))
            writer.close()
        except (ApiError, UnreachableError, DeviceError, OSError) as error:
            _LOG.warning("an engine cannot be placed, and comes again: %s", error)
            await asyncio.sleep(_PAUSE)
            writer.close()
        else:
            await leased.agent.met(reader, writer, caller)
        finally:
            self._connections -= 1

    def _bound(self) -> None:
        if self._connections > _CONNECTIONS:
            raise NoClaimError(f"the agent has {_CONNECTIONS} connections: close some")

    async def _placed(self, pid: int) -> tuple[_Leased, Caller]:
        """Return the device of a process, and what it is. Raises `NoClaimError`, and what the API and devices raise."""
        for leased in self._leased.values():
            known = leased.agent.knows(pid)
            if known is not None and known.pod:
                return leased, known
        async with self._placing:
            uid = _pod(pid)
            claim = await self._claim(uid)
            if len(claim.devices) != 1:
                told = "turns are taken on one device; give the profile count: 1"
                raise NoClaimError(f"claim {claim.name} has {len(claim.devices)} devices: {told}")
            leased = await self._lease(claim.devices[0])
            leased.claims[claim.uid] = claim
            return leased, Caller(claim.pods[uid], uid, claim.namespace)

    async def _claim(self, uid: str) -> Claim:
        for api in self._apis.values():
            for claim in map(claim_of, await api.all("ResourceClaim", labelSelector=LABEL)):
                if uid in claim.pods:
                    return claim
        where = ", ".join(self._apis)
        raise NoClaimError(f"your pod ({uid}) has no claim of a profile in {where}: give its engines a profile")

    async def _lease(self, place: Place) -> _Leased:
        if place not in self._leased:
            made = await self._make(place)
            name = hashlib.sha256(f"{place.driver} {place.pool}".encode()).hexdigest()[:12]
            beside = self._socket.with_name(f"{place.device}-{name}")
            taken = Agent(made, beside, self._times, self._host, f"{place.pool}/{place.device}")
            taken.start()
            self._leased[place] = _Leased(taken)
            _LOG.info("device %s of %s is leased to engines in turn", place.device, place.pool)
        return self._leased[place]

    async def _keep_telling(self) -> None:
        while True:
            for each in self._leased.values():
                await self._notify(each)
            await asyncio.sleep(self._tell)

    async def _notify(self, each: _Leased) -> None:
        """Tell on the claims of a device who has it, when that changed or was told long ago."""
        lease, clock = each.agent.driver.lease, time.monotonic()
        what = notices.told(lease, each.agent.holders, each.agent.pod)
        if what == each.last and (what is None or clock - each.at < _STILL):
            return
        for uid, claim in list(each.claims.items()):
            try:
                patch = notices.patch(uid, what, time.time())
                await self._apis[claim.namespace].merge("ResourceClaim", claim.name, patch)
            except ApiError as error:
                if error.status in {404, 409}:
                    del each.claims[uid]  # it is gone, and another has its name
                    continue
                _LOG.warning("claim %s is not told who has its device: %s", claim.name, error)
                return
            except UnreachableError as error:
                _LOG.warning("claim %s is not told who has its device: %s", claim.name, error)
                return
        each.last, each.at = what, clock


def _pod(pid: int) -> str:
    """Return the uid of a process's pod. Raises `NoClaimError`."""
    process = processes.opened(pid) if pid > 0 else None
    if process is None:
        raise NoClaimError("your process cannot be seen from here: the agent needs hostPID: true")
    try:
        uid = pod_of(Path(f"/proc/{pid}/cgroup").read_text())
    except OSError:
        uid = None
    finally:
        process.close()
    if uid is None:
        raise NoClaimError("your process is in no pod: only engines of pods take turns here")
    return uid


def _makers(budget: str | None, kept: int | None, node: str, api: Api) -> Callable[[Place], Awaitable[Device]]:
    """Return what makes a device of an allocation: a budget of a name, or the GPU that its driver publishes."""

    async def make(place: Place) -> Device:
        if budget is not None:
            name, _, size = budget.rpartition(":")
            return device(f"budget:{name}-{place.device}:{size}", kept)
        uuid = uuid_of(place, await api.all("ResourceSlice", fieldSelector=f"spec.nodeName={node}"))
        if uuid is None:
            raise DeviceError(f"device {place.device} of {place.driver}: its driver publishes no attribute uuid")
        return device(f"nvidia:{uuid}", kept)

    return make


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the devices of a node until SIGTERM; 2 where that cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m muster.sessions.nodes.agent", description=__doc__.partition("\n")[0]
    )
    what = "of engines; may be given several times"
    parser.add_argument("--namespace", action="append", required=True, metavar="NAME", help=what)
    parser.add_argument("--node", required=True, metavar="NAME", help="on which this agent runs")
    what = "take each device for a budget of host memory, for clusters without GPUs; needs root and the control groups"
    parser.add_argument("--budget", metavar="NAME:MEBIBYTES", help=what)
    parser.add_argument("--account", type=Path, default=ACCOUNT, help=f"folder of a ServiceAccount; {ACCOUNT}")
    agent.add(parser)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        if args.budget is not None:
            device(f"budget:{args.budget}")  # raises where it is none
        access = of_account(address(), args.account)
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(args, access))
    except (DeviceError, OSError, ValueError) as error:
        sys.stderr.write(f"sessions: {error}\n")
        return 2
    return 0


async def _serve(args: argparse.Namespace, access: Credentials) -> None:
    apis = {name: Api(access, name) for name in args.namespace}
    make = _makers(args.budget, agent.bytes_of(args.kept), args.node, next(iter(apis.values())))
    node = Node(apis, make, args.socket, agent.times(args), agent.bytes_of(args.host))
    await until_told(node.start, node.close, node.metrics, args.metrics)


if __name__ == "__main__":
    sys.exit(main())
