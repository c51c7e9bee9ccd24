"""Which group of completions may start, and which finished one may go to the trainer.

TRL 1.16.0 (`experimental/async_grpo`) generates without a limit and drops a sample when the weights have moved on by
more than `max_staleness` versions since its group began. Here a group starts only when the trainer will take it in
time, and a finished group waits while its delivery would make an older one late. So none is dropped, as long as the
trainer takes at least as many samples between two versions as it did lately, and, with a staleness of 0, whole groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Gate", "Progress"]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Progress:
    """What the trainer has done so far.

    Attributes:
        version: of the weights that are served.
        taken: samples that the trainer took since its start.
        taken_before: how many of them it took before this version was served.
        per_version: samples that it takes between two versions; at least 1.
        waits: whether it waits for a sample at the moment.
    """

    version: int
    taken: int
    taken_before: int
    per_version: int
    waits: bool = False


@dataclass(slots=True)
class _Group(Generic[Item]):
    version: int
    samples: int
    item: Item | None = None


class Gate(Generic[Item]):
    """Groups between their start and their delivery, the oldest first.

    Args:
        samples: of a group until it is finished and says how many it has.
        max_staleness: versions by which a sample may be behind when it is taken; 0 or more.
    """

    def __init__(self, samples: int, max_staleness: int) -> None:
        if samples < 1 or max_staleness < 0:
            msg = f"A gate needs samples >= 1 and max_staleness >= 0, but was given {samples} and {max_staleness}."
            raise ValueError(msg)
        self._samples, self._most = samples, max_staleness
        self._groups: dict[int, _Group[Item]] = {}
        self._delivered = 0
        self._pending = 0  # samples of `_groups`

    @property
    def undelivered(self) -> int:
        """Groups that have started and were not delivered."""
        return len(self._groups)

    def may_start(self, progress: Progress) -> bool:
        """Return whether a group that starts now is taken in time, behind all that have started before it.

        A trainer that waits while nothing is on its way gets a group in any case: it may need more samples for a step
        than it needed so far.
        """
        if not self._groups and progress.waits and self._delivered <= progress.taken:
            return True
        return _lag(self._queued(progress) + self._pending + self._samples, progress) <= self._most

    def start(self, group: int, version: int) -> None:
        """Remember that a group began with these weights."""
        self._groups[group] = _Group(version, self._samples)
        self._pending += self._samples

    def finish(self, group: int, samples: int, item: Item) -> None:
        """Keep a finished group until it may be delivered; it has as many samples as there are rows to train."""
        kept = self._groups[group]
        self._pending += samples - kept.samples
        kept.samples, kept.item = samples, item

    def version(self, group: int) -> int:
        """Return the weights with which a group began that was not delivered yet."""
        return self._groups[group].version

    def deliver(self, progress: Progress) -> Iterator[Item]:
        """Yield what may be delivered now, the oldest first, and forget it."""
        ahead, room = self._queued(progress), math.inf
        for name, group in list(self._groups.items()):
            ahead += group.samples
            if group.item is not None and group.samples <= room:
                room -= group.samples
                del self._groups[name]
                self._pending -= group.samples
                self._delivered += group.samples
                yield group.item
            else:
                room = min(room, self._room(group.version, ahead, progress))

    def _room(self, version: int, ahead: int, progress: Progress) -> float:
        """Return how many samples may still come before a group whose last one is number `ahead` from now.

        A group that is late already is no reason to hold others.
        """
        versions = self._most - (progress.version - version) + 1
        room = versions * progress.per_version - (progress.taken - progress.taken_before) - ahead
        return room if room >= 0 else math.inf

    def _queued(self, progress: Progress) -> int:
        """Samples that were delivered and not taken."""
        return max(0, self._delivered - progress.taken)


def _lag(samples: int, progress: Progress) -> int:
    """Return how many versions come before the last of so many samples is taken."""
    return (progress.taken - progress.taken_before + samples - 1) // progress.per_version
