"""The part of docs/internals/performance.md that this bench writes: tables, plots, and on what they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import figures
from bench.peers import aims, controllers, machines, muster, pages, plots, tables
from bench.peers.catalogue import NONE
from bench.peers.rounds import LEVELS, Failure, Run
from bench.peers.shapes import Peer
from e2e.cluster import places

__all__ = ["NAME", "PAGE", "ROUNDS", "Measured", "text", "write"]

NAME = "bench-peers"
"""The comments between which the page is written."""

ROUNDS = 7
"""As many as the page takes at least."""

PAGE = places.REPOSITORY / "docs" / "internals" / "performance.md"
PLOTS = places.REPOSITORY / "docs" / "plots"
_RAW = "plots/peers-runs.csv"

_SETUP = """\
Measured on {day} on {machine}, which API server, etcd, webhook and load share. In {rounds} rounds all peers took turns,
in another order each; each figure, of {asked} in a round, is the median of the rounds with [lowest..highest]. What is
added is the difference from the row without a webhook in the same round, whose own figures are in brackets; JobSet's
own webhooks are in every row. [The raw figures]({raw})."""

_COLUMNS = """\
Processor seconds are of 1,000 admissions, from /proc, of all threads of the webhook's process, and for the API server
what it used more than without a webhook; work that is done without requests, whose cores are told, is not taken off.
RSS is that after the load. Start to ready is the time from the start of the
process until it answers a review, or says that it is ready. The program is the binary; for Muster it is the packages
that it runs on, beside which there is a Python."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All that one run of the bench found.

    Attributes:
        peers: in the order of the tables.
        runs: of all rounds.
        sizes: bytes of programs, by the names of peers.
        versions: of what was measured, by name.
        failures: turns that came to nothing.
    """

    peers: Sequence[Peer]
    runs: Sequence[Run]
    sizes: Mapping[str, int]
    versions: Mapping[str, str]
    failures: Sequence[Failure] = ()

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return len({run.round for run in self.runs})

    def complete(self, all_peers: Sequence[Peer]) -> bool:
        """Whether it may stand in the documentation: all peers got their turns, in seven rounds or more."""
        return self.rounds >= ROUNDS and {peer.name for peer in self.peers} == {peer.name for peer in all_peers}


def text(measured: Measured) -> str:
    """Return the part as Markdown, without the plots."""
    counts = {run.workers: run.count for run in measured.runs}
    asked = " and ".join(f"{counts[level]:,} with {level} at a time" for level in LEVELS)
    said = ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    notes = [f"* **{peer.title}.** {_notes(peer)}" for peer in measured.peers if _notes(peer)]
    parts = [
        _SETUP.format(
            day=machines.today(), machine=machines.described(), rounds=measured.rounds, asked=asked, raw=_RAW
        ),
        f"Versions: {said}.",
        tables.latencies(measured.runs, measured.peers, NONE.name, LEVELS),
        tables.costs(measured.runs, measured.peers, NONE.name, LEVELS, measured.sizes),
        _COLUMNS,
        _ratios(measured),
        aims.table(measured.runs),
        "\n".join(notes),
        _failures(measured),
    ]
    return "\n\n".join(part for part in parts if part)


def write(measured: Measured, page: Path = PAGE, folder: Path = PLOTS) -> None:
    """Write the part into the page, and its plots beside it."""
    pictures = [plots.save(folder, f"peers-{name}", title, rows) for name, title, rows in _plots(measured)]
    whole = "\n\n".join((text(measured), *pictures))
    tables.save(folder / Path(_RAW).name, measured.runs)
    pages.write(page, NAME, whole)


def _plots(measured: Measured) -> list[tuple[str, str, list[tuple[str, figures.Figure]]]]:
    others = [peer for peer in measured.peers if peer.name != NONE.name]
    runs = measured.runs
    added = [(peer.title, tables.added(runs, peer.name, NONE.name, 1, lambda run: run.p50)) for peer in others]
    spent = [
        (peer.title, figures.rounds(found))
        for peer in others
        if peer.component() and (found := tables.values(runs, peer.name, LEVELS[-1], lambda run: run.cpu))
    ]
    return [
        ("latency", "p50 added to a request, one at a time, in ms", [(who, each) for who, each in added if each]),
        ("cpu", f"Processor seconds of the webhook for 1,000 admissions, {LEVELS[-1]} at a time", spent),
    ]


def _ratios(measured: Measured) -> str:
    """Return how much Muster uses of what controller-runtime does, if both were measured."""
    ours = [peer for peer in muster.ALL if peer in measured.peers]
    others = [peer for peer in (controllers.TYPED, controllers.PATCHES) if peer in measured.peers]
    return tables.ratios(measured.runs, ours, others, LEVELS) if ours and others else ""


def _failures(measured: Measured) -> str:
    """Return which turns came to nothing, and why; without the folders of the machine."""
    titles = {peer.name: peer.title for peer in measured.peers}
    lines = [
        f"* **{titles[each.peer]} failed {f'in round {each.round}' if each.round else 'before the first round'}:** "
        f"{machines.without_folders(each.why)}"
        for each in measured.failures
    ]
    return "\n".join(lines)


def _notes(peer: Peer) -> str:
    lacking = [part for part in peer.lacks if part != "claim"] if peer.name != NONE.name else []
    without = f"It cannot express: {', '.join(lacking)}." if lacking else ""
    return " ".join(part for part in (peer.note, without) if part)
