"""Raw runs as CSV, and what they say as Markdown: medians over the rounds, with [lowest..highest]."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from bench import figures
from bench.peers.rounds import Run
from bench.peers.shapes import Peer

__all__ = ["added", "costs", "latencies", "load", "ratio", "ratios", "save", "values"]


_NONE = "-"


def save(path: Path, rows: Sequence[Run]) -> None:
    """Write the runs, one a line, under the names of `Run`'s attributes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([each.name for each in dataclasses.fields(Run)])
        writer.writerows(dataclasses.astuple(run) for run in rows)


def load(path: Path) -> list[Run]:
    """Read them back."""
    kinds = {"round": int, "peer": str, "workers": int, "count": int}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Run(**{key: kinds.get(key, float)(value) for key, value in row.items()}) for row in csv.DictReader(file)
        ]


def values(runs: Iterable[Run], peer: str, workers: int, read: Callable[[Run], float]) -> list[float]:
    """Return one value for each round, in their order."""
    found = [run for run in runs if (run.peer, run.workers) == (peer, workers)]
    return [read(run) for run in sorted(found, key=lambda run: run.round)]


def added(runs: Sequence[Run], peer: str, base: str, workers: int, read: Callable[[Run], float]) -> figures.Figure:
    """Return how much more a peer has than the base has in the same round."""
    pairs = zip(values(runs, peer, workers, read), values(runs, base, workers, read), strict=True)
    return figures.rounds([mine - others for mine, others in pairs])


def ratio(runs: Sequence[Run], peer: str, other: str, workers: int, read: Callable[[Run], float]) -> figures.Figure:
    """Return how many times a peer has what another has in the same round.

    Raises:
        ZeroDivisionError: the other used less than a tick of the clock.
    """
    pairs = zip(values(runs, peer, workers, read), values(runs, other, workers, read), strict=True)
    return figures.rounds([mine / others for mine, others in pairs])


def latencies(runs: Sequence[Run], peers: Sequence[Peer], base: str, levels: Sequence[int]) -> str:
    """Return the table of milliseconds that each peer adds to a request."""
    heads = [f"{what} at {level}" for level in levels for what in ("p50", "p99")]
    lines = _head("peer", *(f"added {head}, ms" for head in heads), *(f"requests/s at {level}" for level in levels))
    for peer in peers:
        cells = []
        for level in levels:
            for read in (_p50, _p99):
                if peer.name == base:
                    cells.append(f"({figures.rounds(values(runs, base, level, read))})")
                else:
                    cells.append(_signed(added(runs, peer.name, base, level, read)))
        cells += [str(figures.rounds(values(runs, peer.name, level, lambda run: run.rate))) for level in levels]
        lines.append(_row(peer.title, cells))
    return "\n".join(lines)


def costs(
    runs: Sequence[Run], peers: Sequence[Peer], base: str, levels: Sequence[int], sizes: Mapping[str, int]
) -> str:
    """Return the table of what each peer uses; `sizes` are bytes of programs by the names of peers."""
    heads = [f"{what} at {level}" for level in levels for what in ("CPU s/1,000", "API server's, more")]
    lines = _head("peer", *heads, "idle, cores", "RSS, MiB", "start to ready, s", "program, MB")
    last = levels[-1]
    for peer in peers:
        has = bool(peer.component())
        cells = []
        for level in levels:
            cells.append(str(figures.rounds(values(runs, peer.name, level, _cpu))) if has else _NONE)
            spent = figures.rounds(values(runs, base, level, _api_cpu))
            more = f"({spent})" if peer.name == base else _signed(added(runs, peer.name, base, level, _api_cpu))
            cells.append(more)
        cells += [
            str(figures.rounds(values(runs, peer.name, last, lambda run: run.idle))) if has else _NONE,
            str(figures.rounds(values(runs, peer.name, last, lambda run: run.memory))) if has else _NONE,
            str(figures.rounds(values(runs, peer.name, last, lambda run: run.started))) if has else _NONE,
            f"{sizes[peer.name] / 1e6:.0f}" if sizes.get(peer.name) else _NONE,
        ]
        lines.append(_row(peer.title, cells))
    return "\n".join(lines)


def ratios(runs: Sequence[Run], peers: Sequence[Peer], others: Sequence[Peer], levels: Sequence[int]) -> str:
    """Return the table of how many times the processor seconds of others each peer uses, in the same round."""
    heads = [f"to {other.title}, at {level}" for other in others for level in levels]
    lines = _head("webhook's CPU", *heads)
    for peer in peers:
        found = (ratio(runs, peer.name, other.name, level, _cpu) for other in others for level in levels)
        lines.append(_row(peer.title, [str(each) for each in found]))
    return "\n".join(lines)


def _p50(run: Run) -> float:
    return run.p50


def _p99(run: Run) -> float:
    return run.p99


def _cpu(run: Run) -> float:
    return run.cpu


def _api_cpu(run: Run) -> float:
    return run.api_cpu


def _signed(figure: figures.Figure) -> str:
    text = str(figure)
    return text if text.startswith("-") else f"+{text}"


def _head(*names: str) -> list[str]:
    return [_row(names[0], names[1:]), "|" + "---|" * len(names)]


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {' | '.join((name, *cells))} |"
