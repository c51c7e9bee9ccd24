"""The lease of a device: which engine may use its memory, as a state machine without a clock, I/O or threads.

One engine at a time may have memory on the device. It keeps its memory while nobody else asks, because a switch costs
seconds. `told` takes what happened and returns the next state with what is to be done; whoever drives it (`agent`)
keeps the clock, measures the memory and ends processes. docs/sharing.md draws the states, and
tests/sessions/devices/test_lease.py walks through all of them.

| phase | the holder | it ends when |
|---|---|---|
| `recovering` | is unknown: the agent has just started | each engine of the former agent has joined, or is ended |
| `free` | there is none; the memory was seen to be free | an engine asks |
| `working` | computes | it is done, or its turn is over and another engine waits |
| `idle` | has memory and computes nothing | it asks again, or another engine waits |
| `leaving` | was asked to give up its memory | it has left, or is late and is ended |
| `verifying` | is gone, so it says | the memory is free, and all engines that were ended are dead |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from muster.sessions.devices.shares import Shares

__all__ = [
    "Action",
    "Asked",
    "Died",
    "Done",
    "End",
    "Engine",
    "Event",
    "Gone",
    "Grant",
    "Joined",
    "Late",
    "Lease",
    "Leave",
    "Left",
    "Measured",
    "Phase",
    "TurnOver",
    "told",
]


class Phase(StrEnum):
    """What the device is at; the table above says more."""

    RECOVERING = "recovering"
    FREE = "free"
    WORKING = "working"
    IDLE = "idle"
    LEAVING = "leaving"
    VERIFYING = "verifying"


_HELD = frozenset({Phase.WORKING, Phase.IDLE, Phase.LEAVING})


@dataclass(frozen=True, slots=True, order=True)
class Engine:
    """An engine process that takes turns.

    Attributes:
        name: of this instance: a process that is started again has another one.
        session: its trainer and its samplers share turns.
        weight: of the session, for example its part of the weight of its tenant; above 0.
    """

    name: str
    session: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Joined:
    """An engine is there, and says that it has no memory on the device."""

    engine: Engine


@dataclass(frozen=True, slots=True)
class Asked:
    """An engine wants to compute."""

    name: str


@dataclass(frozen=True, slots=True)
class Done:
    """The holder has nothing more to compute for now, and keeps its memory."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Left:
    """The holder says that it has given up its memory; it may have asked again."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Gone:
    """An engine is heard no more: it has ended, or only its connection has."""

    name: str


@dataclass(frozen=True, slots=True)
class Died:
    """The process of an engine has ended."""

    name: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Who has memory on the device; a process that is not an engine has a name of its own."""

    users: frozenset[str]


@dataclass(frozen=True, slots=True)
class Late:
    """A phase has lasted as long as it may."""

    phase: Phase
    number: int


@dataclass(frozen=True, slots=True)
class TurnOver:
    """A turn has lasted as long as it may while others wait."""

    turn: int


Event: TypeAlias = Joined | Asked | Done | Left | Gone | Died | Measured | Late | TurnOver


@dataclass(frozen=True, slots=True)
class Grant:
    """Tell an engine that it may use the device, under a number."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Ask the holder to give up its memory, when what it computes is done."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class End:
    """End the process of an engine, and tell when it has died; a process that never was an engine is left alone."""

    name: str


Action: TypeAlias = Grant | Leave | End
_Step: TypeAlias = "tuple[Lease, tuple[Action, ...]]"


@dataclass(frozen=True, slots=True)
class Lease:
    """The state.

    Attributes:
        phase: what the device is at.
        number: of the last grant; each has a larger one.
        holder: who had the last grant; None before the first.
        session: whose turn it is.
        turn: number of the turn; a turn is what a session has between two others.
        over: whether the turn has lasted as long as it may.
        engines: all that joined, by name.
        waiting: names of those that asked, in this order.
        ending: names of those that were ended and are not dead.
        missing: engines of a former agent that have neither joined this one nor died.
        users: who had memory when that was last measured in the phase `verifying`.
        shares: of the sessions.
        quantum: seconds that a turn may last while others wait.
    """

    phase: Phase = Phase.RECOVERING
    number: int = 0
    holder: Engine | None = None
    session: str = ""
    turn: int = 0
    over: bool = False
    engines: tuple[Engine, ...] = ()
    waiting: tuple[str, ...] = ()
    ending: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    shares: Shares = field(default_factory=Shares)
    quantum: float = 1.0

    @property
    def resident(self) -> Engine | None:
        """The engine that may have memory on the device at the moment; None while nobody may."""
        return self.holder if self.phase in _HELD else None

    @property
    def contested(self) -> bool:
        """Whether another session waits than the one whose turn it is."""
        return any(each.session != self.session for each in self.asking)

    @property
    def asking(self) -> Sequence[Engine]:
        """The engines that wait, in the order in which they asked."""
        engines = {each.name: each for each in self.engines}
        return [engines[name] for name in self.waiting]


def told(lease: Lease, event: Event, seconds: float = 0.0) -> _Step:
    """Return the next state and what is to be done.

    What does not fit the state changes nothing: an event of an engine that has not joined, or one under the number of
    an earlier grant.

    Args:
        lease: the state.
        event: what happened.
        seconds: for which others have waited in this turn.
    """
    after: _Step
    match event:
        case Joined(engine):
            after = _joined(lease, engine), ()
        case Asked(name):
            after = _asked(lease, name)
        case Done(name, number):
            after = (replace(lease, phase=Phase.IDLE) if _holds(lease, name, number, Phase.WORKING) else lease), ()
        case Left(name, number):
            after = (_verifying(lease) if _holds(lease, name, number, *_HELD) else lease), ()
        case Gone(name):
            after = _gone(lease, name)
        case Died(name):
            after = _died(lease, name), ()
        case Measured(users):
            after = _measured(lease, users)
        case Late(phase, number):
            after = _late(lease) if (phase, number) == (lease.phase, lease.number) else (lease, ())
        case TurnOver(turn):
            after = (replace(lease, over=True) if turn == lease.turn else lease), ()
    settled, more = _settled(after[0], seconds)
    return settled, (*after[1], *more)


def _joined(lease: Lease, engine: Engine) -> Lease:
    if any(each.name == engine.name for each in lease.engines) or engine.name in lease.ending:
        return lease
    return replace(
        lease,
        engines=tuple(sorted((*lease.engines, engine))),
        missing=lease.missing - {engine.name},
        shares=lease.shares.joined(engine.session, lease.quantum / engine.weight),
    )


def _asked(lease: Lease, name: str) -> _Step:
    engine = next((each for each in lease.engines if each.name == name), None)
    if engine is None or name in lease.waiting:
        return lease, ()
    if lease.holder == engine and lease.phase is Phase.WORKING:
        return lease, ()
    if lease.holder == engine and lease.phase is Phase.IDLE and not (lease.over and lease.waiting):
        number = lease.number + 1
        return replace(lease, phase=Phase.WORKING, number=number), (Grant(name, number),)
    known = engine.session == lease.session or any(each.session == engine.session for each in lease.asking)
    shares = lease.shares if known else lease.shares.asked(engine.session)
    return replace(lease, waiting=(*lease.waiting, name), shares=shares), ()


def _gone(lease: Lease, name: str) -> _Step:
    """Forget an engine. One that may use the device, and is only cut off, would go on using it, so it is ended."""
    had = lease.holder is not None and lease.holder.name == name and lease.phase in _HELD
    return _ended(lease, [name]) if had else (_without(lease, name), ())


def _died(lease: Lease, name: str) -> Lease:
    held = lease.holder is not None and lease.holder.name == name and lease.phase in _HELD
    after = replace(_without(lease, name), ending=lease.ending - {name}, missing=lease.missing - {name})
    return _verifying(after) if held else after


def _measured(lease: Lease, users: frozenset[str]) -> _Step:
    match lease.phase:
        case Phase.RECOVERING:
            return lease, ()
        case Phase.VERIFYING:
            is_free = not users and not lease.ending
            return replace(lease, phase=Phase.FREE if is_free else lease.phase, users=users), ()
        case Phase.FREE:
            after, actions = _ended(lease, sorted(users))
            return (replace(after, phase=Phase.VERIFYING, users=users) if users else lease), actions
    holder = lease.holder.name if lease.holder else ""
    return _ended(lease, sorted(users - {holder} - lease.ending))


def _late(lease: Lease) -> _Step:
    match lease.phase:
        case Phase.RECOVERING:
            gone = tuple(End(name) for name in sorted(lease.missing))
            return replace(lease, ending=lease.ending | lease.missing, missing=frozenset()), gone
        case Phase.IDLE if lease.contested:
            return _leaving(lease)
        case Phase.LEAVING if lease.holder is not None:
            return _ended(lease, [lease.holder.name])
        case Phase.VERIFYING:
            return _ended(lease, sorted(lease.users | lease.ending))
    return lease, ()


def _settled(lease: Lease, seconds: float) -> _Step:
    """Do what follows by itself."""
    waits = bool(lease.waiting)
    if lease.phase is Phase.RECOVERING and not lease.missing:
        return _verifying(lease), ()
    if lease.phase is Phase.FREE and waits:
        return _granted(lease, seconds)
    if lease.phase is Phase.WORKING and lease.over and waits:
        return _leaving(lease)
    mine = any(each.session == lease.session for each in lease.asking)
    return _leaving(lease) if lease.phase is Phase.IDLE and (mine or (lease.over and waits)) else (lease, ())


def _granted(lease: Lease, seconds: float) -> _Step:
    """Grant the device to an engine of the session whose turn it is, or begin the turn of the next one."""
    sessions = [each.session for each in lease.asking]
    if lease.over or lease.session not in sessions:
        session = lease.shares.next([each for each in sessions if each != lease.session] or sessions)
        weight = next((each.weight for each in lease.engines if each.session == lease.session), 1.0)
        shares = lease.shares.charged(lease.session, seconds / weight).served(session)
        lease = replace(lease, session=session, turn=lease.turn + 1, over=False, shares=shares)
    mine = [each for each in lease.asking if each.session == lease.session]
    engine = next((each for each in mine if each != lease.holder), mine[0])  # they alternate
    waiting, number = tuple(each for each in lease.waiting if each != engine.name), lease.number + 1
    return replace(lease, phase=Phase.WORKING, holder=engine, waiting=waiting, number=number), (
        Grant(engine.name, number),
    )


def _leaving(lease: Lease) -> _Step:
    name = lease.holder.name if lease.holder else ""
    return replace(lease, phase=Phase.LEAVING), (Leave(name, lease.number),)


def _verifying(lease: Lease) -> Lease:
    """Wait for proof; what was measured before proves nothing."""
    return replace(lease, phase=Phase.VERIFYING, users=frozenset())


def _ended(lease: Lease, names: Sequence[str]) -> _Step:
    """End engines; where the holder is one of them, its memory is verified to be free."""
    held = lease.holder is not None and lease.holder.name in names and lease.phase in _HELD
    known = {each.name for each in lease.engines} & set(names)
    for name in known:
        lease = _without(lease, name)
    lease = replace(lease, ending=lease.ending | known)
    return (_verifying(lease) if held else lease), tuple(End(name) for name in names)


def _without(lease: Lease, name: str) -> Lease:
    """Forget an engine, and its session with the last one."""
    engine = next((each for each in lease.engines if each.name == name), None)
    if engine is None:
        return lease
    engines = tuple(each for each in lease.engines if each is not engine)
    alone = all(each.session != engine.session for each in engines)
    return replace(
        lease,
        engines=engines,
        waiting=tuple(each for each in lease.waiting if each != name),
        shares=lease.shares.left(engine.session) if alone else lease.shares,
    )


def _holds(lease: Lease, name: str, number: int, *phases: Phase) -> bool:
    held = lease.holder is not None and lease.holder.name == name
    return held and number == lease.number and lease.phase in phases
