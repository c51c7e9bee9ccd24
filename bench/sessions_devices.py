"""`python -m bench.sessions_devices`: 1,000 sessions on 200 devices, by simulation with the lease that Muster runs.

A session is a loop: its sampler works, its client thinks (rewards, environments), its trainer works, and so on. Devices
do not touch each other, so each is simulated alone, with events in the order of their times. `Leased` drives the code
of `muster.sessions.devices`; `Queue` has small rules of its own. The tables and the assumptions are in
docs/internals/evidence.md.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.figures import percentile
from muster.sessions.devices.clocks import Driver, Times
from muster.sessions.devices.lease import Action, Asked, Done, Engine, Event, Grant, Joined, Leave, Left, Measured

HOURS = 4
_END = HOURS * 3600.0
_NOBODY = Measured(frozenset())


@dataclass(frozen=True, slots=True)
class Load:
    """What one step of a session takes, in seconds.

    Attributes:
        sample: of the device, for its sampler.
        train: of the device, for its trainer.
        think: without the device, of which a tenth comes after the training.
        leave: of a sampler and of a trainer, to give up their memory.
        enter: of both, to get it back.
    """

    sample: float
    train: float
    think: float
    leave: tuple[float, float]
    enter: tuple[float, float]

    @property
    def alone(self) -> float:
        """The share of a device of its own that it computes on."""
        return (self.sample + self.train) / (self.sample + self.train + self.think)


@dataclass(slots=True)
class Had:
    """What a session had of a device.

    Attributes:
        load: of the session.
        computed: seconds.
        held: seconds, with those in which it came and went.
        waits: seconds from each wish to the first second of its work.
    """

    load: Load
    computed: float = 0.0
    held: float = 0.0
    waits: list[float] = field(default_factory=list)


class Clock:
    """Runs what is due, in the order of its time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), do))

    def run(self) -> None:
        """Go on until the end."""
        while self._due and self._due[0][0] <= _END:
            self.now, _, do = heapq.heappop(self._due)
            do()


class Loop:
    """One session: it wishes for its sampler or its trainer, and thinks when it has been served.

    Args:
        had: is filled.
        clock: of the device.
        wish: is called with 0 for the sampler and 1 for the trainer.
        chance: phases differ by a fifth to both sides.
    """

    def __init__(self, had: Had, clock: Clock, wish: Callable[[int], None], chance: random.Random) -> None:
        self._had, self._clock, self._wish, self._chance = had, clock, wish, chance
        self.role, self.left, self._since = 0, 0.0, 0.0
        clock.after(chance.uniform(0, had.load.think), lambda: self._begin(0))

    def _begin(self, role: int) -> None:
        load = self._had.load
        self.role, self._since = role, self._clock.now
        self.left = (load.train if role else load.sample) * self._chance.uniform(0.8, 1.2)
        self._wish(role)

    def begun(self) -> None:
        """Note that the first second of its work has come."""
        if self._since >= 0:
            self._had.waits.append(self._clock.now - self._since)
        self._since = -1.0

    def computed(self, seconds: float) -> bool:
        """Take computed seconds; tell whether the wish is fulfilled."""
        self._had.computed += seconds
        self.left -= seconds
        if self.left > 1e-9:
            return False
        think = self._had.load.think * (0.1 if self.role else 0.9) * self._chance.uniform(0.8, 1.2)
        role = 1 - self.role
        self._clock.after(think, lambda: self._begin(role))
        return True


_PASS = 2.0  # seconds of the device between two looks whether it is to leave


class Leased:
    """Sessions on a device under the lease that Muster runs."""

    def __init__(self, hads: Sequence[Had], times: Times, chance: random.Random) -> None:
        self._clock, self._driver = Clock(), Driver(times, 0.0)
        self._hads = hads
        self._resident: str | None = None
        self._asked_to_leave = self._computing = False
        self._since = 0.0
        self._timer = 0.0
        self._loops = []
        for place, had in enumerate(hads):
            for role in (0, 1):
                self._tell(Joined(Engine(f"{place}/{role}", str(place))))
            self._loops.append(Loop(had, self._clock, lambda role, at=place: self._tell(Asked(f"{at}/{role}")), chance))
        self._tell(_NOBODY)

    def run(self) -> None:
        """Go on until the end."""
        self._clock.run()
        self._note()

    def _tell(self, event: Event) -> None:
        self._act(self._driver.tell(event, self._clock.now))
        self._alarm()

    def _alarm(self) -> None:
        at = self._driver.next()
        if at < float("inf"):
            self._clock.after(max(0.0, at - self._clock.now), self._look)

    def _look(self) -> None:
        if (event := self._driver.late(self._clock.now)) is not None:
            self._tell(event)

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Grant):
                self._granted(action.name)
            elif isinstance(action, Leave):
                self._asked_to_leave = True
                if not self._computing:
                    self._leave()

    def _granted(self, name: str) -> None:
        place, role = (int(each) for each in name.split("/"))
        self._asked_to_leave, self._computing = False, True
        if self._resident == name:
            self._compute(name)
            return
        self._note()
        self._resident = name
        self._clock.after(self._hads[place].load.enter[role], lambda: self._compute(name))

    def _compute(self, name: str) -> None:
        loop = self._loops[int(name.split("/", maxsplit=1)[0])]
        loop.begun()
        some = min(_PASS, loop.left)
        self._clock.after(some, lambda: self._computed(name, some))

    def _computed(self, name: str, some: float) -> None:
        whole = self._loops[int(name.split("/", maxsplit=1)[0])].computed(some)
        self._computing = False
        if self._asked_to_leave:
            self._leave()
            if not whole:
                self._tell(Asked(name))
        elif whole:
            self._tell(Done(name, self._driver.lease.number))
        else:
            self._computing = True
            self._compute(name)

    def _leave(self) -> None:
        name, number = self._resident or "", self._driver.lease.number
        place, role = (int(each) for each in name.split("/"))
        self._computing = True
        self._clock.after(self._hads[place].load.leave[role], lambda: self._left(name, number))

    def _left(self, name: str, number: int) -> None:
        self._computing = False
        self._note()
        self._resident = None
        self._tell(Left(name, number))
        self._tell(_NOBODY)

    def _note(self) -> None:
        """Note who held the device since the last change."""
        if self._resident is not None:
            self._hads[int(self._resident.split("/")[0])].held += self._clock.now - self._since
        self._since = self._clock.now


class Queue:
    """Sessions on a device whose bursts are served in an order, each to its end, or for a slice of time.

    Args:
        hads: of the sessions.
        chance: of their phases.
        slice_: seconds after which the next one gets the device; None for whole bursts (first in, first out).
    """

    def __init__(self, hads: Sequence[Had], chance: random.Random, slice_: float | None = None) -> None:
        self._clock, self._hads, self._slice = Clock(), hads, slice_
        self._waiting: deque[tuple[int, int]] = deque()
        self._resident: tuple[int, int] | None = None
        self._busy = False
        wish = lambda role, at: self._wished(at, role)  # noqa: E731  # as below
        self._loops = [
            Loop(had, self._clock, lambda role, at=at: wish(role, at), chance) for at, had in enumerate(hads)
        ]

    def run(self) -> None:
        """Go on until the end."""
        self._clock.run()

    def _wished(self, place: int, role: int) -> None:
        self._waiting.append((place, role))
        self._next()

    def _next(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        who = self._waiting.popleft()
        switch = 0.0
        if self._resident != who:
            if self._resident is not None:
                switch += self._hads[self._resident[0]].load.leave[self._resident[1]]
            switch += self._hads[who[0]].load.enter[who[1]]
        self._resident = who
        self._hads[who[0]].held += switch
        self._clock.after(switch, lambda: self._compute(who))

    def _compute(self, who: tuple[int, int]) -> None:
        loop = self._loops[who[0]]
        loop.begun()
        some = loop.left if self._slice is None else min(loop.left, self._slice)
        self._hads[who[0]].held += some
        self._clock.after(some, lambda: self._computed(who, some))

    def _computed(self, who: tuple[int, int], some: float) -> None:
        self._busy = False
        if not self._loops[who[0]].computed(some):
            self._waiting.append(who)
        self._next()


# Seconds of a step of 0.5B, 4B and 8B parameters, of which 40 % are on the device (source: docs/internals/evidence.md).
_PHASES = ((7.0, 5.0, 18.0), (14.0, 10.0, 36.0), (20.0, 14.0, 51.0))
# Seconds in which an engine of each size leaves and comes back: as published elsewhere, and as `bench.sessions moves`
# measured on an H200. Those of 8B, and of samplers of whole models, were not measured and are by their bytes.
_SAMPLERS, _FULL, _ADAPTERS = (1.5, 3.0, 4.0), (3.13, 8.11, 10.83), (0.66, 1.05, 1.53)
_MEASURED_SAMPLERS, _MEASURED_WHOLE = (0.14, 0.33, 0.67), (0.14, 0.42, 0.86)
_MEASURED_FULL, _MEASURED_ADAPTERS = (0.27, 1.26, 2.57), (0.20, 0.54, 1.10)
_KINDS = {
    "adapters": (_ADAPTERS, _SAMPLERS),
    "all weights": (_FULL, _SAMPLERS),
    "adapters, as measured on an H200": (_MEASURED_ADAPTERS, _MEASURED_SAMPLERS),
    "all weights, as measured on an H200": (_MEASURED_FULL, _MEASURED_WHOLE),
}


def loads(trainers: Sequence[float], samplers: Sequence[float] = _SAMPLERS) -> list[Load]:
    """Return the loads of the three sizes.

    Args:
        trainers: seconds in which the trainer of each size leaves and comes back.
        samplers: the same of samplers.
    """
    return [
        Load(*phases, leave=(sampler / 2, trainer / 2), enter=(sampler / 2, trainer / 2))
        for phases, sampler, trainer in zip(_PHASES, samplers, trainers, strict=True)
    ]


def bound(load: Load) -> float:
    """Return the largest share of the held time in which a session computes, whatever the order of turns.

    Each step needs sampler and trainer, one after the other, and one engine at a time has memory. So both come and go
    at least once a step while others use the device in between.
    """
    work = load.sample + load.train
    return work / (work + sum(load.leave) + sum(load.enter))


_TIMES = Times()
_WAYS: dict[str, Callable[[Sequence[Had], random.Random], Leased | Queue]] = {
    "lease": lambda hads, chance: Leased(hads, _TIMES, chance),
    "first in, first out": Queue,
    "round robin, 10 s": lambda hads, chance: Queue(hads, chance, 10.0),
}


def fair(hads: Sequence[Had]) -> Iterator[float]:
    """Yield what each session held, by what would have been its fair part of all that was held (max-min fairness)."""
    wants = [had.load.alone * _END for had in hads]
    left, parts = sum(had.held for had in hads), {}
    for place, at in enumerate(sorted(range(len(hads)), key=wants.__getitem__)):
        parts[at] = min(wants[at], left / (len(hads) - place))
        left -= parts[at]
    for at, had in enumerate(hads):
        yield had.held / parts[at]


def jain(values: Sequence[float]) -> float:
    """Return the index of Jain, Chiu and Hawe (1984): 1 for equal values, 1/n where one has all."""
    return float(sum(values) ** 2 / (len(values) * sum(each**2 for each in values)))


def run(sessions: int = 1000, devices: int = 200, seed: int = 7) -> None:
    """Print a table for each kind of training."""
    for kind, moves in _KINDS.items():
        print(f"\n{kind}: {sessions} sessions on {devices} devices, {HOURS} hours")
        print("| way | duty cycle | wait, median | wait, 95 % | Jain | least part of the fair share |")
        print("|---|---|---|---|---|---|")
        chosen = loads(*moves)
        alone = _table("a device each", [[_exclusive(chosen[at % 3], seed + at)] for at in range(devices)])
        print(alone)
        for way, make in _WAYS.items():
            chance, all_ = random.Random(seed), []  # noqa: S311  # no secret
            mixes = random.Random(seed + 1)  # noqa: S311  # the same sessions for each way
            for _ in range(devices):
                hads = [Had(mixes.choice(chosen)) for _ in range(sessions // devices)]
                make(hads, chance).run()
                all_.append(hads)
            print(_table(way, all_), flush=True)


def _exclusive(load: Load, seed: int) -> Had:
    """Return what a session had of a device of its own, in whose memory trainer and sampler are together."""
    had = Had(Load(load.sample, load.train, load.think, (0.0, 0.0), (0.0, 0.0)))
    Queue([had], random.Random(seed)).run()  # noqa: S311  # no secret
    return had


def _table(way: str, devices: Sequence[Sequence[Had]]) -> str:
    hads = [had for device in devices for had in device]
    parts = [part for device in devices for part in fair(device)]
    duty = sum(had.computed for had in hads) / (_END * len(devices))
    waits = [wait for had in hads for wait in had.waits]
    middle, most = percentile(waits, 0.5), percentile(waits, 0.95)
    return f"| {way} | {duty:.1%} | {middle:.0f} s | {most:.0f} s | {jain(parts):.3f} | {min(parts):.2f} |"


if __name__ == "__main__":
    run(*(int(each) for each in sys.argv[1:]))
