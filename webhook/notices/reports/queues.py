"""Decisions that wait to be reported: per namespace no more than its report can hold, and a limited number in total.

A decision beyond a namespace's share would not fit into its report either, so dropping it loses nothing; a decision is
lost only when the total is reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.audit.record_schema import Record
from muster.webhook.notices.reports import outcomes
from muster.webhook.notices.reports.outcomes import Subject

__all__ = ["Pending"]


class Pending:
    """Records by namespace and job, the newest of each.

    Args:
        share: the most records of one namespace.
        room: the most records in total.
    """

    def __init__(self, share: int, room: int) -> None:
        self._share = share
        self._room = room
        self._spaces: dict[str, _Space] = {}
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        """The namespaces with waiting records, the longest waiting first."""
        return iter(self._spaces)

    def __len__(self) -> int:
        return self._count

    def add(self, record: Record) -> bool:
        """Queue a record; return False when there is no room."""
        namespace, about, heavy = (
            record["object"]["namespace"],
            outcomes.subject(record),
            outcomes.weight(record),
        )
        space = self._spaces.get(namespace) or _Space()
        there = space.find(about)
        if there is None and self._count >= self._room:
            return False
        if there is not None and not heavy and about.phase == "mutate" and there["decision"] != "error":
            return True  # the second call of one admission; the first reported the changes
        before = len(space)
        space.put(about, heavy, record)
        if len(space) > self._share:
            space.drop_one()
        self._spaces[namespace] = space
        self._count += len(space) - before
        return True

    def take(self, namespace: str) -> list[Record]:
        """Remove the waiting records of a namespace from the queue, and return them."""
        taken = (self._spaces.pop(namespace, None) or _Space()).records()
        self._count -= len(taken)
        return taken

    def put_back(self, records: list[Record]) -> int:
        """Queue records again, except for jobs that have a newer one now; return how many found no room."""
        lost = 0
        for record in records:
            space = self._spaces.get(record["object"]["namespace"])
            if space is None or space.find(outcomes.subject(record)) is None:
                lost += not self.add(record)
        return lost


class _Space:
    """The records of a namespace by weight, the oldest of each weight first: the lightest are dropped first."""

    def __init__(self) -> None:
        self._lanes: tuple[dict[Subject, Record], ...] = tuple({} for _ in outcomes.WEIGHTS)

    def __len__(self) -> int:
        return sum(map(len, self._lanes))

    def find(self, about: Subject) -> Record | None:
        return next((lane[about] for lane in self._lanes if about in lane), None)

    def put(self, about: Subject, heavy: int, record: Record) -> None:
        for lane in self._lanes:
            lane.pop(about, None)
        self._lanes[heavy][about] = record

    def drop_one(self) -> None:
        lane = next(lane for lane in self._lanes if lane)
        del lane[next(iter(lane))]

    def records(self) -> list[Record]:
        return [record for lane in self._lanes for record in lane.values()]
