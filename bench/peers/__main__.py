"""`python -m bench.peers`: builds the peers, measures them in a cluster of its own, and says what they cost.

A run of all peers in at least seven rounds writes its tables and plots into docs/performance.md; a smaller one prints
them. The raw figures are in build/peers/.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence

from bench.peers import catalogue, labs, reports, rounds, tables, versions
from bench.peers.shapes import Peer
from e2e.cluster import bringups, commands, places, processes
from e2e.cluster.errors import ClusterError

_RAW = places.REPOSITORY / "build" / "peers" / "runs.csv"


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
        lab = labs.opened(where, catalogue.modules(peers))
        measured = _measured(lab, peers, options)
    except ClusterError as error:
        commands.say(str(error))
        return 1
    finally:
        if options.keep:
            commands.say(f"left up: `python -m e2e.cluster down --state {where.state}` ends it")
        else:
            bringups.down(where)
    print(reports.text(measured))
    if measured.complete(catalogue.PEERS):
        reports.write(measured)
        commands.say(f"written into {reports.PAGE}")
    else:
        commands.say(f"{reports.PAGE} was left alone, for it takes all peers and seven rounds")
    return 0


def _check_free(where: places.Places) -> None:
    if processes.running(where):
        raise ClusterError(f"{where.state}: a cluster is up here; bring it down, or give another --name")


def _measured(lab: labs.Lab, peers: Sequence[Peer], options: argparse.Namespace) -> reports.Measured:
    for peer in peers:
        peer.prepare(lab)
    sizes = {peer.name: peer.size(lab) for peer in peers}
    deadline = time.monotonic() + options.minutes * 60
    runs: list[rounds.Run] = []
    for done in rounds.measured(lab, peers, options.rounds, options.requests, deadline):
        runs += done
        tables.save(_RAW, runs)
        commands.say(f"round {done[0].round} of {options.rounds} is done; raw figures are in {_RAW}")
    return reports.Measured(peers, runs, sizes, versions.of(peers))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--peers",
        type=lambda text: text.split(","),
        default=[],
        metavar="NAME,...",
        help=f"only these, and none, with which they are compared: {', '.join(peer.name for peer in catalogue.PEERS)}",
    )
    parser.add_argument("--rounds", type=_positive, default=7, help="default: %(default)s")
    parser.add_argument(
        "--requests",
        type=_counts,
        default=[400, 600],
        metavar="N,N",
        help="measured requests of a peer in a round, one at a time and 16 at a time (default: 400,600)",
    )
    parser.add_argument("--minutes", type=float, default=28, help="no round begins that would end later")
    parser.add_argument("--name", default=f"peers-{os.getpid()}", help="of the cluster (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    return parser


def _counts(text: str) -> list[int]:
    counts = [_positive(each) for each in text.split(",")]
    if len(counts) != len(rounds.LEVELS):
        raise argparse.ArgumentTypeError(f"{text!r}: give {len(rounds.LEVELS)} numbers, as 400,600")
    return counts


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r}: is no number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
