"""Decisions that wait to be reported: no more of a namespace than its report has room for, and a bounded number of all.

What falls out of a namespace's share would not have stood in its report either, so nothing is lost by that; only what
finds no room among all namespaces is.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.audit.records import Record
from webhook.notices.reports import outcomes
from webhook.notices.reports.outcomes import Subject

__all__ = ["Pending"]


class Pending:
    """Records by namespace and job, the newest of each.

    Args:
        share: records of one namespace.
        room: records of all.
    """

    def __init__(self, share: int, room: int) -> None:
        self._share = share
        self._room = room
        self._spaces: dict[str, _Space] = {}
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        """The namespaces that wait, the longest waiting first."""
        return iter(self._spaces)

    def __len__(self) -> int:
        return self._count

    def add(self, record: Record) -> bool:
        """Have a record wait; False when there is no room."""
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
            return True  # the second call of one admission; the first said what was done
        before = len(space)
        space.put(about, heavy, record)
        if len(space) > self._share:
            space.drop_one()
        self._spaces[namespace] = space
        self._count += len(space) - before
        return True

    def take(self, namespace: str) -> list[Record]:
        """Return what waits of a namespace, and have it wait no more."""
        taken = (self._spaces.pop(namespace, None) or _Space()).records()
        self._count -= len(taken)
        return taken

    def put_back(self, records: list[Record]) -> int:
        """Have records wait again, but for jobs with a newer one by now; return how many find no room."""
        lost = 0
        for record in records:
            space = self._spaces.get(record["object"]["namespace"])
            if space is None or space.find(outcomes.subject(record)) is None:
                lost += not self.add(record)
        return lost


class _Space:
    """The records of a namespace by weight, of each weight the oldest first: the lightest go before the heavier."""

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
