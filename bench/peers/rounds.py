"""Rounds in which all peers take turns, each in another place of the order in each round."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.peers import changes, costs, servers
from bench.peers.labs import Lab
from bench.peers.shapes import Peer
from e2e.cluster import commands
from e2e.cluster.errors import ClusterError

__all__ = ["FAILURES", "LEVELS", "Failure", "Round", "Run", "measured", "rotated"]

LEVELS = (1, 16)
"""Requests at a time."""

FAILURES = (ClusterError, OSError, ValueError, LookupError)
"""What a peer that does not work raises; it ends that peer's turn, and not the run."""

_WARM = 5  # a fifth of the requests comes before them, and is not measured
_SERVER = "kube-apiserver"
_TURN = 7  # rounds after which the order has been turned once
_IDLE = 1.0  # seconds
_PATIENCE = 60.0  # seconds
_TRIES = 2  # failures after which a peer gets no further turn


@dataclass(frozen=True, slots=True)
class Run:
    """One peer in one round, at one level.

    Attributes:
        round: its number, from 1.
        peer: its name.
        workers: requests at a time.
        count: how many requests were measured.
        p50, p90, p99: of the whole request through the API server, in ms.
        rate: answers per second.
        cpu: processor seconds of its processes for 1,000 admissions; 0 if it has none.
        api_cpu: those of the API server.
        memory: resident MiB of its processes afterwards.
        started: seconds from its start until it answered; the same for all levels of a round.
        idle: cores that its processes used in a second without requests, after all levels of the round.
    """

    round: int
    peer: str
    workers: int
    count: int
    p50: float
    p90: float
    p99: float
    rate: float
    cpu: float
    api_cpu: float
    memory: float
    started: float
    idle: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A turn that came to nothing.

    Attributes:
        round: its number, from 1; 0 for what comes before the first round, as a build.
        peer: its name.
        why: what went wrong.
    """

    round: int
    peer: str
    why: str


@dataclass(frozen=True, slots=True)
class Round:
    """What one round gave."""

    number: int
    runs: list[Run] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def rotated(peers: Sequence[Peer], number: int) -> list[Peer]:
    """Return the peers in the order of a round, from 0: turned by a seventh each time, every other time reversed."""
    order = list(peers[::-1] if number % 2 else peers)
    place = number * len(peers) // _TURN % len(peers)
    return [*order[place:], *order[:place]]


def measured(lab: Lab, peers: Sequence[Peer], rounds: int, requests: Sequence[int], deadline: float) -> Iterator[Round]:
    """Measure round after round, and yield each; no round is begun that would not end before the deadline.

    A peer that does not start, or whose change is not seen, or is still seen afterwards, has a failure in place of
    runs. After the second one it is given up.

    Args:
        lab: the cluster.
        peers: what is measured.
        rounds: at most.
        requests: how many, for each of `LEVELS`.
        deadline: of `time.monotonic`.
    """
    longest, failed = 0.0, Counter[str]()
    for number in range(rounds):
        begun = time.monotonic()
        if begun + longest > deadline:
            commands.say(f"no time is left for round {number + 1} of {rounds}")
            return
        found = Round(number + 1)
        for peer in rotated(peers, number):
            if failed[peer.name] >= _TRIES:
                continue
            try:
                found.runs.extend(_turn(lab, peer, number + 1, requests))
            except FAILURES as error:
                failed[peer.name] += 1
                found.failures.append(Failure(number + 1, peer.name, str(error)))
                commands.say(f"{peer.title} failed in round {number + 1}: {error}")
        yield found
        longest = max(longest, time.monotonic() - begun)


def _turn(lab: Lab, peer: Peer, number: int, requests: Sequence[int]) -> list[Run]:
    begun = time.monotonic()
    try:
        peer.start(lab)
        servers.until(f"{peer.title} does not answer", lambda: peer.ready(lab), _PATIENCE)
        started = time.monotonic() - begun
        try:
            peer.register(lab)
            expected = list(peer.lacks)
            _see(lab, peer, expected)
            if peer.judges:
                servers.until(f"{peer.title} does not refuse too many pods", lab.refused, _PATIENCE)
            runs = [
                _run(lab, peer, number, workers, count, started)
                for workers, count in zip(LEVELS, requests, strict=True)
            ]
            _check(lab, peer, expected)
            idle = _idle(lab, peer.component())
        finally:
            peer.unregister(lab)
        _see(lab, peer, list(changes.PARTS))
    finally:
        peer.stop(lab)
    return [dataclasses.replace(run, idle=idle) for run in runs]


def _see(lab: Lab, peer: Peer, expected: list[str]) -> None:
    """Wait until dry runs lack just these parts, several times one after the other."""
    wait = f"dry runs beside {peer.title} do not lack just {expected or 'nothing'}"
    servers.until(wait, lambda: all(lab.missing(claims=peer.claims) == expected for _ in range(3)), _PATIENCE)


def _check(lab: Lab, peer: Peer, expected: list[str]) -> None:
    missing = lab.missing(claims=peer.claims)
    if missing != expected:
        raise ClusterError(f"{peer.title}: after the load, a dry run lacks {missing} and not {expected}")


def _run(  # noqa: PLR0913  # what makes up one measurement
    lab: Lab, peer: Peer, number: int, workers: int, count: int, started: float
) -> Run:
    lab.load(max(count // _WARM, 2 * workers), workers, claims=peer.claims)
    name = peer.component()
    before = (lab.spent(name) if name else 0.0, lab.spent(_SERVER))
    load = lab.load(count, workers, claims=peer.claims)
    after = (lab.spent(name) if name else 0.0, lab.spent(_SERVER))
    cpu, api_cpu = ((late - early) / count * 1000 for early, late in zip(before, after, strict=True))
    memory = costs.memory(lab.pids(name)) if name else 0.0
    return Run(
        number,
        peer.name,
        workers,
        count,
        load.at(0.5),
        load.at(0.9),
        load.at(0.99),
        load.rate,
        cpu,
        api_cpu,
        memory,
        started,
        0.0,
    )


def _idle(lab: Lab, name: str) -> float:
    if not name:
        return 0.0
    before = lab.spent(name)
    time.sleep(_IDLE)
    return (lab.spent(name) - before) / _IDLE
