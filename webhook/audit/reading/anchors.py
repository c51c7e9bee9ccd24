"""Compares a log with notes about it that are kept elsewhere (`log.notes`): what is missing was cut off or rewritten.

An anchor that a person noted must be in the log. Those that the service keeps in the cluster are of many chains, and
nobody says which belong to a log: a chain does of which the log has an anchor. A chain that goes on after a restart has
the record that it continues as its first anchor, so a log that is cut between two processes still has one.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from muster.webhook.audit.log.notes import Anchor, Chronicle
from muster.webhook.audit.records import Link

__all__ = ["Expected", "Kept", "Noted"]


class Expected(Protocol):
    """What a log is expected to have; `verify` shows it each record that is as it was written."""

    def see(self, link: Link) -> None:
        """Take note of a record."""

    def missing(self) -> Iterator[str]:
        """Yield a sentence for each thing that the log does not have; called after the last record."""


class _Sightings:
    """Which of some anchors a log has, and why it lacks the others; takes memory for the anchors only."""

    def __init__(self, anchors: Iterable[Anchor]) -> None:
        self._wanted: dict[int, set[str]] = {}
        for each in anchors:
            self._wanted.setdefault(each.seq, set()).add(each.hash)
        self._found: set[tuple[int, str]] = set()
        self._seen: set[int] = set()
        self.first = self.last = 0

    def see(self, link: Link) -> None:
        seq = link["seq"]
        self.first = min(self.first or seq, seq)
        self.last = max(self.last, seq)
        if seq in self._wanted:
            self._seen.add(seq)
            if link["hash"] in self._wanted[seq]:
                self._found.add((seq, link["hash"]))

    def has(self, anchor: Anchor) -> bool:
        return (anchor.seq, anchor.hash) in self._found

    def told(self, anchor: Anchor) -> str:
        """Return what there is instead of an anchor."""
        if not self.last:
            return "the log has no records: they were removed"
        if anchor.seq in self._seen:
            return "the log has another record of this number: it was rewritten, or this is the anchor of another log"
        if anchor.seq > self.last:
            return f"the log ends at record {self.last}: its end was cut off, or this is an older copy"
        if anchor.seq < self.first:
            return f"the log begins at record {self.first}: older files are missing"
        return "the log does not have it: it was removed"


class Noted(_Sightings):
    """Anchors that somebody noted: each must be there."""

    def __init__(self, anchors: Iterable[Anchor]) -> None:
        self._anchors = tuple(dict.fromkeys(anchors))
        super().__init__(self._anchors)

    def missing(self) -> Iterator[str]:
        """Yield a sentence for each anchor that the log does not have."""
        for each in self._anchors:
            if not self.has(each):
                yield f"record {each.seq} with hash {each.hash} is expected, but {self.told(each)}"


class Kept(_Sightings):
    """The chains that services noted in the cluster.

    Args:
        chains: what was noted, by the key of each chain.
        pod: only chains of this pod are looked at; None: those of all pods. The log must have an anchor of one.
        copied: when the log was copied; later anchors are not expected.
    """

    def __init__(
        self, chains: Mapping[str, Chronicle], pod: str | None = None, copied: datetime.datetime | None = None
    ) -> None:
        self._chains = [each for _, each in sorted(chains.items()) if pod in {None, each.pod}]
        self._pods = sorted({each.pod for each in chains.values()})
        self._pod = pod
        self._copied = copied
        super().__init__(anchor for each in self._chains for anchor in each.anchors)

    def missing(self) -> Iterator[str]:
        """Yield a sentence for each chain of this log of which an anchor is missing."""
        ours = [each for each in self._chains if any(map(self.has, each.anchors))]
        if not ours:
            yield self._strange()
        for each in ours:
            yield from self._lacking(each)

    def _strange(self) -> str:
        whose = "the cluster" if self._pod is None else f"pod {self._pod}"
        if not self._chains:
            return f"nothing is noted about {whose}; there are notes about {', '.join(self._pods) or 'no pod'}"
        return (
            f"the log has none of the records that were noted about {whose}: it was rewritten, or cut off before the "
            "first of them, or is another log"
        )

    def _lacking(self, chain: Chronicle) -> Iterator[str]:
        """Yield one sentence about the oldest missing anchor; rotation deletes old records, but not the newest."""
        due = [each for each in chain.anchors if self._is_due(each)]
        lost = [each for each in due if not self.has(each) and (each.seq >= self.first or each == due[-1])]
        if lost:
            oldest = lost[0]
            more = f" ({len(lost)} anchors of this chain are missing)" if len(lost) > 1 else ""
            yield (
                f"pod {chain.pod}, {chain.sink}, noted {oldest.time}: record {oldest.seq} with hash {oldest.hash} is "
                f"expected, but {self.told(oldest)}{more}"
            )

    def _is_due(self, anchor: Anchor) -> bool:
        return self._copied is None or datetime.datetime.fromisoformat(anchor.time) <= self._copied
