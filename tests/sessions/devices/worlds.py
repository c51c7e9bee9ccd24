"""All that can happen to a device: its lease, with engines that are slow, lie, hang, are cut off and die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from muster.sessions.devices.lease import (
    Action,
    Asked,
    Died,
    Done,
    End,
    Engine,
    Event,
    Gone,
    Grant,
    Joined,
    Late,
    Lease,
    Left,
    Measured,
    Phase,
    TurnOver,
    told,
)
from muster.sessions.devices.shares import Shares


@dataclass(frozen=True, slots=True)
class Process:
    """One engine, as it is and not as the lease believes.

    Attributes:
        alive: whether it runs.
        known: whether it has joined since it started; the agent keeps that over its own end.
        joined: whether it is connected.
        doomed: whether it was killed; it may run on for a while.
        granted: whether it believes that it may use the device.
        memory: whether it has memory there.
    """

    alive: bool = False
    known: bool = False
    joined: bool = False
    doomed: bool = False
    granted: bool = False
    memory: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """The lease and what is true.

    Attributes:
        passed: how many whole turns others had since `watched` asked.
    """

    lease: Lease
    processes: tuple[Process, ...]
    passed: float = 0


@dataclass
class Model:
    """What can happen next.

    Args:
        engines: that may start and end.
        watched: name of the session whose wait is counted; empty is none, and then all have had the same.
        faults: whether engines lie, are cut off, and the agent dies.
        deaths: whether engines die and start.
    """

    engines: Sequence[Engine]
    watched: str = ""
    faults: bool = True
    deaths: bool = True

    def start(self) -> World:
        return World(self._lease(), tuple(Process(alive=not self.deaths) for _ in self.engines))

    def next(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield what can happen, and the world after it."""
        for number, engine in enumerate(self.engines):
            for step, process, event in self._of(world, engine, world.processes[number]):
                yield from self._told(f"{engine.name} {step}", self._with(world, number, process), event)
        yield from self._told("measured", world, self._measure(world))
        yield from self._told("late", world, Late(world.lease.phase, world.lease.number))
        if not world.lease.over and world.lease.turn:
            yield from self._told("turn over", world, TurnOver(world.lease.turn))
        if self.faults:
            yield "agent restarted", self._restarted(world)

    def _restarted(self, world: World) -> World:
        """An agent that has just started looks which of the engines that it kept a note of are alive."""
        processes = tuple(replace(each, joined=False, known=each.known and each.alive) for each in world.processes)
        pairs = zip(self.engines, processes, strict=True)
        missing = frozenset(engine.name for engine, each in pairs if each.known)
        return World(replace(self._lease(), missing=missing), processes)

    def _lease(self) -> Lease:
        """Return a lease that counts in turns; shares matter only where a wait is counted."""
        return Lease(quantum=1.0 if self.watched else 0.0)

    def alone(self, world: World) -> World:
        """Return the world after what happens without the help of any engine: clocks, measurements and deaths."""
        for number, each in enumerate(world.processes):
            if each.alive and each.doomed:
                return self._with(world, number, replace(each, alive=False, granted=False))
            if not each.alive and each.memory:
                return self._with(world, number, replace(each, memory=False))
            if not each.alive and each.known:
                return self._only(self._with(world, number, Process()), Died(self.engines[number].name))
        measured = self._only(world, self._measure(world))
        if measured != world:
            return measured
        if world.lease.phase is Phase.WORKING and not world.lease.over:
            return self._only(world, TurnOver(world.lease.turn))
        return self._only(world, Late(world.lease.phase, world.lease.number))

    def _of(self, world: World, engine: Engine, process: Process) -> Iterator[tuple[str, Process, Event | None]]:
        name, number = engine.name, world.lease.number
        if not process.alive:
            yield from self._dead(process, name)
            return
        if self.deaths or process.doomed:
            yield "dies", replace(process, alive=False, granted=False, doomed=False), None
        if process.granted and not process.memory:
            yield "takes memory", replace(process, memory=True), None
        if process.joined:
            yield from self._connected(process, name, number)
        elif process.granted or process.memory:
            yield "notices", replace(process, granted=False, memory=False), None
            if self.faults:
                yield "lies as it joins", replace(process, granted=False, known=True, joined=True), Joined(engine)
        else:
            yield "joins", replace(process, known=True, joined=True), Joined(engine)

    @staticmethod
    def _dead(process: Process, name: str) -> Iterator[tuple[str, Process, Event | None]]:
        if process.memory:
            yield "memory freed", replace(process, memory=False), None
        if process.joined:
            yield "gone", replace(process, joined=False), Gone(name)
        if process.known:
            yield "died", replace(process, joined=False, known=False), Died(name)
        if not (process.memory or process.known):
            yield "starts", Process(alive=True), None

    def _connected(self, process: Process, name: str, number: int) -> Iterator[tuple[str, Process, Event | None]]:
        yield "asks", process, Asked(name)
        if process.granted:
            yield "is done", process, Done(name, number)
            yield "leaves", replace(process, granted=False, memory=False), Left(name, number)
            if self.faults and process.memory:
                yield "lies that it left", replace(process, granted=False), Left(name, number)
        if self.faults:
            yield "is cut off", replace(process, joined=False), Gone(name)
            yield "repeats that it left", process, Left(name, number - 1)
            if not process.granted:
                yield "lies that it held", process, Left(name, number)

    def _measure(self, world: World) -> Measured:
        pairs = zip(self.engines, world.processes, strict=True)
        return Measured(frozenset(engine.name for engine, each in pairs if each.memory))

    def _only(self, world: World, event: Event) -> World:
        return next(after for _, after in self._told("", world, event))

    def _told(self, step: str, world: World, event: Event | None) -> Iterator[tuple[str, World]]:
        if event is None:
            yield step, world
            return
        seen = set()
        for seconds in self._contested(world.lease):
            lease, actions = told(world.lease, event, seconds)
            self._give_way(world.lease, lease, actions)
            after = self._counted(world, self._done(replace(world, lease=lease), actions), seconds)
            if after not in seen:
                seen.add(after)
                yield step, after

    def _contested(self, lease: Lease) -> Sequence[float]:
        """Return for how long others may have waited, in maximum turns."""
        if not (lease.contested and self.watched):
            return (0.0,)
        return (1.0,) if lease.over else (0.0, 1.0)

    def _counted(self, before: World, after: World, seconds: float) -> World:
        waits = any(each.session == self.watched for each in after.lease.asking)
        if not waits or after.lease.session == self.watched:
            passed = 0
        else:
            passed = before.passed + seconds * (before.lease.turn != after.lease.turn)
        return replace(after, lease=_canonical(after.lease), passed=passed)

    def _done(self, world: World, actions: Sequence[Action]) -> World:
        for action in actions:
            number = next((at for at, each in enumerate(self.engines) if each.name == action.name), None)
            assert number is not None
            process = world.processes[number]
            if isinstance(action, Grant):
                self._alone_there(world, number)
                world = self._with(world, number, replace(process, granted=process.joined and process.alive))
            elif isinstance(action, End):
                world = self._with(world, number, replace(process, doomed=True))
        return world

    @staticmethod
    def _give_way(before: Lease, after: Lease, actions: Sequence[Action]) -> None:
        """A session whose turn is over gets no grant while another one waits."""
        granted = any(isinstance(action, Grant) for action in actions)
        assert not (granted and before.over and before.contested and after.session == before.session), before

    @staticmethod
    def _alone_there(world: World, number: int) -> None:
        """Nobody else has memory, or believes that he may take some."""
        others = [each for at, each in enumerate(world.processes) if at != number]
        assert not any(each.memory for each in others), world
        assert not any(each.alive and each.granted for each in others), world

    @staticmethod
    def _with(world: World, number: int, process: Process) -> World:
        processes = (*world.processes[:number], process, *world.processes[number + 1 :])
        return replace(world, processes=processes)


def _canonical(lease: Lease) -> Lease:
    """Return the lease with its numbers as small as their order allows; only differences matter."""
    floor, waiting = lease.shares.floor, {each.session for each in lease.asking}
    tags = [(each, tag - floor if each in waiting else max(tag - floor, 0)) for each, tag in lease.shares.tags]
    return replace(lease, number=1, turn=min(1, lease.turn), shares=Shares(tuple(tags)))
