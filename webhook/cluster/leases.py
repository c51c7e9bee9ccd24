"""Leader election through a Lease, with the rules of client-go's `tools/leaderelection`.

A candidate never compares the Lease's times with its own clock: it takes the Lease when it has seen it unchanged for
the holder's `leaseDurationSeconds`, by its own monotonic clock. A holder that cannot renew gives up well before that.
Every change is a PUT of the version that was read, so one of two candidates wins.

A Lease does not make two leaders impossible: a process may stall between reading the clock and a write. So no rule
elsewhere relies on a single leader; the Lease only keeps replicas from doing the same work.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from muster.kube import transports
from muster.webhook.cluster import kinds, writes

__all__ = ["Election", "Terms", "identity"]

_logger = logging.getLogger(__name__)


class Terms(Struct, frozen=True):
    """The Lease and its times in seconds; the defaults are those of Kubernetes' own controllers.

    Attributes:
        duration: time after which a Lease that is not renewed may be taken.
        deadline: time in which a holder must renew; less than `duration`, so that it stops before another starts.
        retry: time between two tries.
    """

    name: str = "muster-controllers"
    namespace: str = "muster-system"
    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


def identity() -> str:
    """Return a unique name for this process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class _Seen(Struct):
    """The Lease as it was last read or written, and when that was, by this process's clock."""

    document: Mapping[str, Any] | None = None
    at: float = 0.0


class Election:
    """One candidate in the election.

    Args:
        access: sends requests to the API server.
        terms: the Lease and its times.
        me: the name of this candidate; see `identity`.
        clock: returns monotonic seconds.
        rng: the source of jitter.
    """

    def __init__(
        self,
        access: writes.Writes,
        terms: Terms,
        me: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._access = access
        self._terms = terms
        self._me = me
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter, no secret
        self._seen = _Seen()
        self._until = 0.0  # clock reading up to which this candidate leads
        self._problem = ""

    @property
    def leading(self) -> bool:
        """Whether this candidate holds the Lease, as far as it knows."""
        return self._clock() < self._until

    async def attempt(self) -> bool:
        """Try once to take or renew the Lease; return whether this candidate leads.

        While the API server does not answer, a leader keeps leading until the deadline; it stops when another one holds
        the Lease.
        """
        started = self._clock()
        try:
            if await self._take():
                self._until = started + self._terms.deadline
            else:
                self._until = 0.0
            self._problem = ""
        except writes.ConflictError:
            pass  # another candidate wrote; the next try reads which one
        except transports.TransportError as error:
            self._say(str(error))
        return self.leading

    async def hold(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` whenever this candidate leads, until cancelled; the work is cancelled when the Lease is lost.

        When `hold` itself is cancelled, the work is cancelled first and the Lease released afterwards.
        """
        try:
            while True:
                if await self.attempt():
                    _logger.info("leading", extra={"lease": self._terms.name, "identity": self._me})
                    await self._lead(work)
                    _logger.warning("leading no more", extra={"lease": self._terms.name, "identity": self._me})
                await self._pause()
        finally:
            await self.release()

    async def release(self) -> None:
        """Release the Lease, so that another candidate takes it at once; has no effect when another one holds it."""
        document = self._seen.document
        if not self.leading or document is None:
            return
        self._until = 0.0
        spec = {**document["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
        with contextlib.suppress(transports.TransportError):  # the Lease expires anyway
            await self._access.replace(kinds.LEASE, {**document, "spec": spec})

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(work())
        try:
            while not task.done() and self.leading:
                await asyncio.wait({task}, timeout=self._terms.retry * self._rng.uniform(0.8, 1.0))
                if not task.done():
                    await self._renew_in_time()
        finally:
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, Exception):
            _logger.error("the work of the leader failed", exc_info=ended)

    async def _renew_in_time(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._until - self._clock(), 0.0)):
                await self.attempt()

    async def _pause(self) -> None:
        await asyncio.sleep(self._terms.retry * self._rng.uniform(0.8, 1.2))

    async def _take(self) -> bool:
        """Return whether this candidate holds the Lease now."""
        document = await self._access.get(kinds.LEASE, self._terms.namespace, self._terms.name)
        if document is None:
            return self._wrote(await self._access.create(kinds.LEASE, self._made()))
        spec = document.get("spec") or {}
        if self._seen.document is None or self._seen.document.get("spec") != document.get("spec"):
            self._seen = _Seen(document, self._clock())
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self._me} and not self._ran_out(spec):
            return False
        changed = {**spec, "holderIdentity": self._me, "renewTime": _now(), **self._length()}
        if holder != self._me:
            changed |= {"acquireTime": _now(), "leaseTransitions": spec.get("leaseTransitions", 0) + 1}
        return self._wrote(await self._access.replace(kinds.LEASE, {**document, "spec": changed}))

    def _say(self, problem: str) -> None:
        """Log a problem once, not at each of a hundred equal tries."""
        if problem != self._problem:
            _logger.warning("lease not renewed" if self.leading else "lease not taken", extra={"problem": problem})
        self._problem = problem

    def _ran_out(self, spec: Mapping[str, Any]) -> bool:
        length = float(spec.get("leaseDurationSeconds") or self._terms.duration)
        return self._clock() - self._seen.at > length

    def _wrote(self, document: Mapping[str, Any]) -> bool:
        self._seen = _Seen(document, self._clock())
        return True

    def _length(self) -> dict[str, int]:
        return {"leaseDurationSeconds": max(round(self._terms.duration), 1)}

    def _made(self) -> dict[str, Any]:
        spec = {"holderIdentity": self._me, "acquireTime": _now(), "renewTime": _now(), "leaseTransitions": 0}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._terms.name, "namespace": self._terms.namespace},
            "spec": spec | self._length(),
        }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
