"""One engine as a pod: found by what the API server says of it, and asked whether it answers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.sessions.engines.client import Engine, LostError, Remote
from muster.sessions.engines.options import REFUSED
from muster.sessions.metrics import Metrics
from muster.sessions.platforms import manifests
from muster.sessions.platforms.queues import Queues, is_gated

__all__ = ["Engines", "Seen", "seen"]

_LOOK = 2.0  # seconds between questions to an engine that answers, by which it also knows that it has a Gateway
_SOON = 0.2  # and to one that does not
_LONGEST = 300  # characters of a reason
_ROLE = "muster.dev/role"
_UNKNOWN = Queues()
_NOWHERE = Remote("http://0.0.0.0:1", "", 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the pods of a role say.

    Attributes:
        address: of the one that is ready; None for none.
        reason: why there is none, or what it waits for that is ready, for whoever waits.
        refusal: why its engine can never be made of what it was given, in one sentence; empty where it can.
        absence: the reason in one word of `muster.sessions.metrics.ABSENCES`; empty with an address.
    """

    address: str | None
    reason: str
    refusal: str = ""
    absence: str = "starting"


def seen(role: str, pods: Sequence[Mapping[str, Any]], queues: Queues = _UNKNOWN) -> Seen:
    """Return what a list of pods says of a role; pods that are being deleted say nothing.

    Args:
        role: of the engine.
        pods: of the Gateway.
        queues: what is known of their claim.
    """
    own = [
        pod
        for pod in pods
        if pod["metadata"]["labels"].get(_ROLE) == role and not pod["metadata"].get("deletionTimestamp")
    ]
    if not own:
        return Seen(None, f"the {role} is starting: its pod is being made")
    newest = max(own, key=lambda pod: (str(pod["metadata"]["creationTimestamp"]), str(pod["metadata"]["name"])))
    return _of(role, newest, queues)


def _of(role: str, pod: Mapping[str, Any], queues: Queues) -> Seen:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or ()), {})
    state = container.get("state") or {}
    if (conditions.get("Ready") or {}).get("status") == "True" and status.get("podIP"):
        return Seen(status["podIP"], queues.turn(role, pod), absence="")
    waiting = state.get("waiting") or {}
    ended = (state if "terminated" in state else (container.get("lastState") or {}) if waiting else {}).get(
        "terminated"
    )
    if ended and ended.get("exitCode") == REFUSED:
        last = (str(ended.get("message") or "").strip().splitlines() or [""])[-1]
        return Seen(None, f"the {role} cannot start", f"the {role} cannot start: {last[:_LONGEST]}", "refused")
    if waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
        told = f"the {role} does not start: {waiting['reason']}; its operator finds why in pod {name}"
        return Seen(None, told, absence="failing")
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return _unscheduled(role, pod, scheduled, queues)
    if turn := queues.turn(role, pod):  # it is made of its base model in its turn, and answers after that
        return Seen(None, turn, absence="device")
    return Seen(None, f"the {role} is starting")


def _unscheduled(role: str, pod: Mapping[str, Any], condition: Mapping[str, Any], queues: Queues) -> Seen:
    if is_gated(pod):
        return Seen(None, queues.seat(role, pod), absence="seat")
    told = str(condition.get("message") or condition.get("reason"))[:_LONGEST]
    return Seen(None, f"the {role} waits for a node: {told}", absence="node")


class Engines:
    """One engine in a pod that is always there, or on its way.

    Args:
        name: `trainer` or `sampler`.
        metrics: of the Gateway.

    Attributes:
        refused: is set when it cannot be made of what was given, unless it was made of that before.
        refusal: why, in one sentence.
    """

    def __init__(self, name: str, metrics: Metrics) -> None:
        self.name, self._metrics = name, metrics
        self.refused, self.refusal = asyncio.Event(), ""
        self._up = asyncio.Event()
        self._was_up = False
        self._reason = f"the {name} is starting"
        self._turn = ""  # what an engine that answers waits for
        self._absence = ""
        self._place = _NOWHERE
        self._engine: Engine | None = None
        self._task: asyncio.Task[None] | None = None
        self.instance = ""

    @property
    def engine(self) -> Engine:
        """What it is asked by at the moment."""
        if self._engine is None:
            self._engine = Engine(self._place, functools.partial(self._metrics.busy, self.name))
        return self._engine

    @property
    def is_up(self) -> bool:
        """Whether it answers at the moment."""
        return self._up.is_set()

    @property
    def waits_for(self) -> str:
        """Why it does not answer or compute at the moment, for whoever waits; empty where it does both."""
        return self._turn if self.is_up else self._reason

    @property
    def absence(self) -> str:
        """The same in one word; empty while it answers or is not wanted."""
        return "" if self.is_up else self._absence

    async def ready(self) -> str:
        """Wait until it answers, and return which instance does."""
        await self._up.wait()
        return self.instance

    async def after(self, instance: str) -> None:
        """Wait until an instance that was lost has answered again, or has been followed by another."""
        while await self.ready() == instance:
            if await self._ask():
                return
            await asyncio.sleep(_SOON)

    def refuse(self, sentence: str) -> None:
        """Tell that it cannot be made; who was made before is tried again."""
        self._reason, self._absence = sentence, "refused"
        if not self._was_up:
            self.refusal = sentence
            self.refused.set()

    async def found(self, what: Seen, token: str, term: int) -> None:
        """Take what was seen of its pods, and with which token and as which Gateway it is asked."""
        place = Remote(f"http://{_host(what.address)}:{manifests.PORT}", token, term) if what.address else _NOWHERE
        if what.refusal:
            self.refuse(what.refusal)
        elif not self.is_up:
            self._reason = what.reason or f"the {self.name} is starting"
        self._turn = what.reason if what.address else ""
        if place != self._place:
            await self.lose(what.reason)
            self._place = place
            if what.address:
                self._task = asyncio.create_task(self._watch())
        self._absence = what.absence or "starting"

    async def lose(self, reason: str) -> None:
        """Forget the pod; whoever waits for an answer of it is told."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._down(reason or f"the {self.name} is starting")
        self._absence = ""
        self._place, engine, self._engine = _NOWHERE, self._engine, None
        if engine is not None:
            await engine.close()

    def _down(self, reason: str) -> None:
        if self._up.is_set():
            self._metrics.restarted(self.name)
        self._up.clear()
        self._reason, self.instance = reason, ""

    async def _watch(self) -> None:
        """Ask it again and again which instance it is."""
        while True:  # noqa: ASYNC110  # nothing tells when it is another
            await asyncio.sleep(_LOOK if await self._ask() else _SOON)

    async def _ask(self) -> bool:
        engine = self.engine
        try:
            instance = str((await engine.state())["instance"])
        except LostError:
            if engine is self._engine:
                self._down(f"the {self.name} does not answer; it is started again")
            return False
        if engine is not self._engine:
            return False  # its pod was lost meanwhile
        if self._up.is_set() and instance != self.instance:
            self._metrics.restarted(self.name)
        self.instance, self._was_up = instance, True
        self._up.set()
        return True


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
