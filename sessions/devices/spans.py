"""Who had a device from when until when: a line in the agent's log each time that an engine has left it.

`muster sessions timeline` makes a picture of these lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from muster.sessions.devices.lease import Engine, Lease, Phase

__all__ = ["LOGGER", "Span", "Spans", "read"]

LOGGER = "muster.sessions.devices.spans"
"""Name of the log, by which its lines are found among others."""
_LONGEST = 2000  # characters of a line that is read
_HELD = frozenset({Phase.WORKING, Phase.IDLE, Phase.LEAVING, Phase.VERIFYING})


@dataclass(frozen=True, slots=True)
class Span:
    """What one engine had of a device, from its grant until its memory was seen to be free.

    Attributes:
        device: of which it is.
        session: of the engine.
        role: of the engine, `trainer` or `sampler`.
        begin: seconds since 1970.
        working: seconds in which it computed.
        idle: seconds in which it had memory and computed nothing.
        leaving: seconds in which it gave up its memory, and that was verified.
    """

    device: str
    session: str
    role: str
    begin: float
    working: float
    idle: float
    leaving: float

    @property
    def end(self) -> float:
        """When the memory was free, in seconds since 1970."""
        return self.begin + self.working + self.idle + self.leaving

    def line(self) -> str:
        """Return it as it is logged."""
        rounded = {key: round(each, 3) if isinstance(each, float) else each for key, each in asdict(self).items()}
        return json.dumps(rounded, separators=(",", ":"))


class Spans:
    """Counts the spans of one device.

    Args:
        device: how it is called.
        now: seconds of a clock that never goes back.
    """

    def __init__(self, device: str, now: float) -> None:
        self._device, self._looked = device, now
        self._engine: Engine | None = None
        self._begin = 0.0
        self._seconds = dict.fromkeys(Phase, 0.0)

    def count(self, before: Lease, after: Lease, now: float, clock: float) -> Span | None:
        """Count one step of the lease, and return the span that ended by it.

        Args:
            before: the state until now.
            after: the next one.
            now: seconds of a clock that never goes back.
            clock: seconds since 1970.
        """
        self._seconds[before.phase] += now - self._looked
        self._looked = now
        new = after.resident is not None and after.resident != before.resident
        ended = self._ended() if new or after.phase not in _HELD else None
        if new:
            self._engine, self._begin = after.resident, clock
            self._seconds = dict.fromkeys(Phase, 0.0)
        return ended

    def _ended(self) -> Span | None:
        engine, self._engine = self._engine, None
        if engine is None:
            return None
        had = self._seconds
        leaving = had[Phase.LEAVING] + had[Phase.VERIFYING]
        role = engine.name.partition(".")[0]
        return Span(self._device, engine.session, role, self._begin, had[Phase.WORKING], had[Phase.IDLE], leaving)


def read(lines: Iterable[str]) -> Iterator[Span]:
    """Yield the spans in a log; whatever else is in it, or is torn, is passed over."""
    for line in lines:
        _, found, text = line[:_LONGEST].partition(f"{LOGGER} ")
        if found and (span := _span(text)) is not None:
            yield span


def _span(text: str) -> Span | None:
    try:
        told = json.loads(text)
        device, session, role = (str(told[each]) for each in ("device", "session", "role"))
        numbers = begin, working, idle, leaving = [
            float(told[each]) for each in ("begin", "working", "idle", "leaving")
        ]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not all(map(math.isfinite, numbers)) or min(numbers) < 0:
        return None
    return Span(device, session, role, begin, working, idle, leaving)
