"""Notes about a log that are kept elsewhere: number and hash of some of its records, so that a cut or a rewrite shows.

A hash covers all records before it, so one note about a late record suffices to find a change of any earlier one. A
service with `audit.anchors: configmap` keeps a history for each chain that it writes, in one ConfigMap: a key for each
chain, with a JSON object of the pod, the sink and the anchors, oldest first. This module knows the format and its
bounds, and compares a log with notes; it neither reads nor writes the cluster.

An anchor that a person noted must be in the log. Those that the service keeps in the cluster are of many chains, and
nothing says which belong to a log: a chain does of which the log has an anchor. A chain that goes on after a restart
has the record that it continues as its first anchor, so a log that is cut between two processes still has one.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypedDict

import msgspec
import orjson

from muster.audit.record_schema import Digest, Link, Time, misfit

__all__ = [
    "CHAINS",
    "KEPT",
    "NAME",
    "Anchor",
    "Chronicle",
    "Ends",
    "Expected",
    "Kept",
    "NoteError",
    "Noted",
    "parse",
    "pruned",
    "read",
    "rendered",
]

NAME = "muster-audit-anchors"
"""The ConfigMap, in the namespace of Muster."""

KEPT = 32
"""Anchors of one chain that are kept; older ones are thinned out, the first and the newest stay."""
CHAINS = 64
"""Chains that are kept; of more, those that were noted longest ago are removed."""


class NoteError(ValueError):
    """A text is not a note that Muster made."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Record `seq` of a log has this `hash`; `time` is when that was noted, "" when it is not known."""

    seq: int
    hash: str
    time: str = ""

    def __str__(self) -> str:
        """Return `seq:hash`, the form of the command line."""
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class Ends:
    """What one process has written of a chain.

    Attributes:
        sink: the name of the sink.
        first: the record that the process continued, or the first record of a new chain.
        last: the last record that the sink took.
    """

    sink: str
    first: Anchor
    last: Anchor


@dataclass(frozen=True, slots=True)
class Chronicle:
    """The anchors of one chain, oldest first: which pod wrote it where, and what was its end at some times."""

    pod: str
    sink: str
    anchors: tuple[Anchor, ...] = ()

    def noted(self, anchor: Anchor) -> Chronicle:
        """Return this chronicle with a newer anchor, of at most `KEPT`: of the older half, each second one goes."""
        anchors = (*self.anchors, anchor)
        if len(anchors) > KEPT:
            half = len(anchors) // 2
            anchors = (*anchors[:half:2], *anchors[half:])
        return replace(self, anchors=anchors)


class _Anchor(TypedDict):
    seq: int
    hash: Digest
    time: Time


class _Chronicle(TypedDict):
    pod: str
    sink: str
    anchors: list[_Anchor]


def rendered(chronicle: Chronicle) -> str:
    """Return the text that is kept for a chain."""
    return orjson.dumps(chronicle).decode()


def parse(text: str) -> Chronicle:
    """Read the text of a chain.

    Raises:
        NoteError: it is not one that Muster made.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NoteError("is not JSON") from error
    if problem := misfit(value, _Chronicle):
        raise NoteError(problem)
    if not value["anchors"]:
        raise NoteError("anchors: is empty; a chain is noted with its first anchor")
    return msgspec.convert(value, Chronicle)


def read(document: Mapping[str, object]) -> dict[str, Chronicle]:
    """Read the chains in a ConfigMap, by their keys.

    Raises:
        NoteError: it has an entry that Muster did not make; the error names its key.
    """
    data, found = document.get("data"), {}
    for key, text in (data if isinstance(data, dict) else {}).items():
        try:
            found[key] = parse(str(text))
        except NoteError as error:
            raise NoteError(f"data.{key}: {error}") from error
    return found


def pruned(chains: Mapping[str, Chronicle], mine: Iterable[str]) -> dict[str, Chronicle]:
    """Return at most `CHAINS` chains: those of the keys `mine`, then those with the newest anchors."""
    kept = set(mine)
    newest = sorted(chains, key=lambda key: (key in kept, chains[key].anchors[-1].time), reverse=True)
    return {key: chains[key] for key in sorted(newest[:CHAINS])}


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

    def _instead_of(self, anchor: Anchor) -> str:
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
                yield f"record {each.seq} with hash {each.hash} is expected, but {self._instead_of(each)}"


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
                f"expected, but {self._instead_of(oldest)}{more}"
            )

    def _is_due(self, anchor: Anchor) -> bool:
        return self._copied is None or datetime.datetime.fromisoformat(anchor.time) <= self._copied
