"""Rounds in which all peers take turns, each in another place of the order in each round."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.peers import changes, costs, servers
from bench.peers.labs import Lab
from bench.peers.shapes import Peer
from e2e.cluster import commands
from e2e.cluster.errors import ClusterError

__all__ = ["LEVELS", "Run", "measured", "rotated"]

LEVELS = (1, 16)
"""Requests at a time."""

_WARM = 5  # a fifth of the requests comes before them, and is not measured
_SERVER = "kube-apiserver"
_TURN = 7  # rounds after which the order has been turned once
_IDLE = 1.0  # seconds


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
        idle: cores that its processes used in a second without requests, after the load.
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


def rotated(peers: Sequence[Peer], number: int) -> list[Peer]:
    """Return the peers in the order of a round, from 0: turned by a seventh each time, every other time reversed."""
    order = list(peers[::-1] if number % 2 else peers)
    place = number * len(peers) // _TURN % len(peers)
    return [*order[place:], *order[:place]]


def measured(
    lab: Lab, peers: Sequence[Peer], rounds: int, requests: Sequence[int], deadline: float
) -> Iterator[list[Run]]:
    """Measure round after round, and yield each; no round is begun that would not end before the deadline.

    Args:
        lab: the cluster.
        peers: what is measured.
        rounds: at most.
        requests: how many, for each of `LEVELS`.
        deadline: of `time.monotonic`.

    Raises:
        ClusterError: a peer does not start, or its change is not seen, or is still seen afterwards.
    """
    longest = 0.0
    for number in range(rounds):
        begun = time.monotonic()
        if begun + longest > deadline:
            commands.say(f"no time is left for round {number + 1} of {rounds}")
            return
        yield [run for peer in rotated(peers, number) for run in _turn(lab, peer, number + 1, requests)]
        longest = max(longest, time.monotonic() - begun)


def _turn(lab: Lab, peer: Peer, number: int, requests: Sequence[int]) -> list[Run]:
    begun = time.monotonic()
    peer.start(lab)
    try:
        servers.until(f"{peer.title} does not answer", lambda: peer.ready(lab))
        started = time.monotonic() - begun
        peer.register(lab)
        try:
            expected = list(peer.lacks)
            _see(lab, peer, expected)
            runs = [
                _run(lab, peer, number, workers, count, started)
                for workers, count in zip(LEVELS, requests, strict=True)
            ]
            _check(lab, peer, expected)
        finally:
            peer.unregister(lab)
        _see(lab, peer, list(changes.PARTS))
    finally:
        peer.stop(lab)
    return runs


def _see(lab: Lab, peer: Peer, expected: list[str]) -> None:
    """Wait until dry runs lack just these parts, several times one after the other."""
    wait = f"dry runs beside {peer.title} do not lack just {expected or 'nothing'}"
    servers.until(wait, lambda: all(lab.missing(claims=peer.claims) == expected for _ in range(3)))


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
    idle = _idle(lab, name) if name else 0.0
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
        idle,
    )


def _idle(lab: Lab, name: str) -> float:
    before = lab.spent(name)
    time.sleep(_IDLE)
    return (lab.spent(name) - before) / _IDLE
