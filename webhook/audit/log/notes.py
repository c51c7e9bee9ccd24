"""Notes about a log that are kept elsewhere: number and hash of some of its records, so that a cut or a rewrite shows.

A hash covers all records before it, so one note about a late record suffices to find a change of any earlier one. A
service with `audit.anchors: configmap` keeps a history for each chain that it writes, in one ConfigMap: a key for each
chain, with a JSON object of the pod, the sink and the anchors, oldest first. This module knows the format and its
bounds; it neither reads nor writes the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import orjson

from muster.webhook.audit import schemas
from muster.webhook.audit.records import Digest, Time

__all__ = ["CHAINS", "KEPT", "NAME", "Anchor", "Chronicle", "Ends", "NoteError", "parse", "pruned", "read", "rendered"]

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
    anchors = [{"seq": each.seq, "hash": each.hash, "time": each.time} for each in chronicle.anchors]
    return orjson.dumps({"pod": chronicle.pod, "sink": chronicle.sink, "anchors": anchors}).decode()


def parse(text: str) -> Chronicle:
    """Read the text of a chain.

    Raises:
        NoteError: it is not one that Muster made.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NoteError("is not JSON") from error
    if misfit := schemas.misfit(value, _Chronicle):
        raise NoteError(misfit)
    anchors = tuple(Anchor(each["seq"], each["hash"], each["time"]) for each in value["anchors"])
    if not anchors:
        raise NoteError("anchors: is empty; a chain is noted with its first anchor")
    return Chronicle(value["pod"], value["sink"], anchors)


def read(document: Mapping[str, Any]) -> dict[str, Chronicle]:
    """Read the chains in a ConfigMap, by their keys.

    Raises:
        NoteError: it has an entry that Muster did not make; the error names its key.
    """
    data = document.get("data")
    return {key: _entry(key, text) for key, text in (data if isinstance(data, dict) else {}).items()}


def pruned(chains: Mapping[str, Chronicle], mine: Iterable[str]) -> dict[str, Chronicle]:
    """Return at most `CHAINS` chains: those of the keys `mine`, then those with the newest anchors."""
    kept = set(mine)
    newest = sorted(chains, key=lambda key: (key in kept, chains[key].anchors[-1].time), reverse=True)
    return {key: chains[key] for key in sorted(newest[:CHAINS])}


def _entry(key: str, text: object) -> Chronicle:
    try:
        return parse(str(text))
    except NoteError as error:
        raise NoteError(f"data.{key}: {error}") from error
