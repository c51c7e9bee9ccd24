"""`python -m bench.peers`: builds the peers, measures them in a cluster of its own, and says what they cost.

There are three parts: admissions through the API server, command lines that judge files, and how Muster's own cost
grows. A run of all peers in at least seven rounds writes its tables and plots into docs/internals/performance.md; a
smaller one prints them. The raw figures are in build/peers/.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers import catalogue, labs, offline, pages, reports, rounds, tables, versions
from bench.peers.shapes import Peer
from bench.scaling import axes, decisions, services
from bench.scaling import reports as scaling
from e2e.cluster import bringups, builds, commands, places, processes
from e2e.cluster.errors import ClusterError

_RAW = places.REPOSITORY / "build" / "peers"
_PARTS = ("peers", "offline", "scaling")
_FEWER = 3  # rounds of what is steadier than a request through an API server


def main(arguments: list[str] | None = None) -> int:
    """Measure, and take the cluster down; 1 with a message when something does not work."""
    # As Ctrl-C does: the cluster is taken down on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = _parser().parse_args(arguments)
    try:
        where, peers = places.named(options.name), catalogue.chosen(options.peers)
        _check_free(where)
    except ClusterError as error:
        commands.say(str(error))
        return 1
    try:
        failures = _built(peers)
        lab = functools.cache(lambda: labs.opened(where, catalogue.modules(_without(peers, failures))))
        parts: dict[str, Callable[[], None]] = {
            "peers": lambda: _peers(lab(), peers, failures, options),
            "offline": lambda: _offline(options),
            "scaling": lambda: _scaling(lab(), options),
        }
        return max([_told(name, parts[name]) for name in _PARTS if name in options.parts], default=0)
    finally:
        if options.keep:
            commands.say(f"left up: `python -m e2e.cluster down --state {where.state}` ends it")
        else:
            bringups.down(where)


def _check_free(where: places.Places) -> None:
    if processes.running(where):
        raise ClusterError(f"{where.state}: a cluster is up here; bring it down, or give another --name")


def _told(name: str, part: Callable[[], None]) -> int:
    """Run a part, say how long it took, and return 1 if it came to nothing; the other parts do not need it."""
    begun = time.monotonic()
    try:
        part()
    except rounds.FAILURES as error:
        commands.say(f"{name}: {error}")
        return 1
    finally:
        commands.say(f"{name} took {time.monotonic() - begun:.0f} s")
    return 0


def _built(peers: Sequence[Peer]) -> list[rounds.Failure]:
    """Build each peer by itself, so that one that cannot be built is missing alone; return those that cannot."""
    failures = []
    for peer in peers:
        try:
            if modules := peer.modules():
                builds.binaries((), modules)
        except rounds.FAILURES as error:
            failures.append(_failure(peer, error))
    return failures


def _peers(lab: labs.Lab, peers: Sequence[Peer], failures: list[rounds.Failure], options: argparse.Namespace) -> None:
    sizes: dict[str, int] = {}
    for peer in _without(peers, failures):
        try:
            peer.prepare(lab)
            sizes[peer.name] = peer.size(lab)
        except rounds.FAILURES as error:
            failures.append(_failure(peer, error))
    working, deadline = _without(peers, failures), time.monotonic() + options.minutes * 60
    runs: list[rounds.Run] = []
    for done in rounds.measured(lab, working, options.rounds, options.requests, deadline):
        runs += done.runs
        failures += done.failures
        tables.save(_RAW / "runs.csv", runs)
        commands.say(f"round {done.number} of {options.rounds} is done; raw figures are in {_RAW}")
    if not runs:
        raise ClusterError("no peer could be measured")
    measured = reports.Measured(peers, runs, sizes, versions.of(working), failures)
    print(reports.text(measured))
    if measured.complete(catalogue.PEERS):
        reports.write(measured)
        commands.say(f"written into {reports.PAGE}")
    else:
        commands.say(f"{reports.PAGE} was left alone, for it takes all peers and {reports.ROUNDS} rounds")


def _offline(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        usable, failures = offline.usable(Path(folder))
        calls = list(offline.measured(Path(folder), usable, _fewer(options)))
    text = offline.text(calls, failures)
    print(text)
    tables.save(_RAW / Path(offline.RAW).name, calls)
    if _is_whole(options):
        tables.save(reports.PAGE.parent / offline.RAW, calls)
        pages.write(reports.PAGE, offline.NAME, f"{text}\n\n{offline.plot(calls, reports.PLOTS)}")


def _scaling(lab: labs.Lab, options: argparse.Namespace) -> None:
    timings = decisions.measured(axes.AXES, options.rounds)
    served = services.served(lab, _fewer(options))
    text = scaling.text(timings, served, list(services.cached(lab)))
    print(text)
    for path, found in ((scaling.DECISIONS, timings), (scaling.SERVICES, served)):
        tables.save(_RAW / Path(path).name, found)
        if _is_whole(options):
            tables.save(reports.PAGE.parent / path, found)
    if _is_whole(options):
        pages.write(reports.PAGE, scaling.NAME, f"{text}\n\n{decisions.plot(timings, reports.PLOTS)}")


def _without(peers: Sequence[Peer], failures: Sequence[rounds.Failure]) -> list[Peer]:
    gone = {failure.peer for failure in failures}
    return [peer for peer in peers if peer.name not in gone]


def _failure(peer: Peer, error: Exception) -> rounds.Failure:
    commands.say(f"{peer.title} is left out: {error}")
    return rounds.Failure(0, peer.name, str(error))


def _fewer(options: argparse.Namespace) -> int:
    return int(min(options.rounds, _FEWER))


def _is_whole(options: argparse.Namespace) -> bool:
    return int(options.rounds) >= reports.ROUNDS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--peers",
        type=lambda text: text.split(","),
        default=[],
        metavar="NAME,...",
        help=f"only these, and none, with which they are compared: {', '.join(peer.name for peer in catalogue.PEERS)}",
    )
    parser.add_argument(
        "--parts",
        type=_parts,
        default=list(_PARTS),
        metavar="NAME,...",
        help=f"only these of {', '.join(_PARTS)} (default: all)",
    )
    parser.add_argument("--rounds", type=_positive, default=7, help="default: %(default)s")
    parser.add_argument(
        "--requests",
        type=_counts,
        default=[160, 256],
        metavar="N,N",
        help="measured requests of a peer in a round, one at a time and 16 at a time (default: 160,256)",
    )
    parser.add_argument("--minutes", type=float, default=28, help="no round of peers begins that would end later")
    parser.add_argument("--name", default=f"peers-{os.getpid()}", help="of the cluster (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    return parser


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in _PARTS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: is not a part; there are {', '.join(_PARTS)}")
    return names


def _counts(text: str) -> list[int]:
    counts = [_positive(each) for each in text.split(",")]
    if len(counts) != len(rounds.LEVELS):
        raise argparse.ArgumentTypeError(f"{text!r}: give {len(rounds.LEVELS)} numbers, as 400,600")
    return counts


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r}: is not a number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
