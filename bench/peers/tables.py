"""Raw runs as CSV, and what they say as Markdown: medians over the rounds, with [lowest..highest]."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import figures
from bench.peers import markdown
from bench.peers.rounds import Run
from bench.peers.shapes import Peer

__all__ = ["added", "costs", "latencies", "load", "ratio", "ratios", "save", "values"]

_NONE = "-"


def save(path: Path, rows: Sequence[Any]) -> None:
    """Write instances of one dataclass, as `Run`, one a line, under the names of its attributes; nothing if none."""
    if not rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([each.name for each in dataclasses.fields(rows[0])])
        writer.writerows([_rounded(value) for value in dataclasses.astuple(row)] for row in rows)


def _rounded(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def load(path: Path) -> list[Run]:
    """Read runs back, with six significant digits."""
    kinds = {"round": int, "peer": str, "workers": int, "count": int}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Run(**{key: kinds.get(key, float)(value) for key, value in row.items()}) for row in csv.DictReader(file)
        ]


def values(runs: Iterable[Run], peer: str, workers: int, read: Callable[[Run], float]) -> list[float]:
    """Return one value for each round, in their order."""
    found = [run for run in runs if (run.peer, run.workers) == (peer, workers)]
    return [read(run) for run in sorted(found, key=lambda run: run.round)]


def added(
    runs: Sequence[Run], peer: str, base: str, workers: int, read: Callable[[Run], float]
) -> figures.Figure | None:
    """Return how much more a peer has than the base has in the same round; None if they have no round in common."""
    return _figure([mine - others for mine, others in _pairs(runs, (peer, base), workers, read)])


def ratio(
    runs: Sequence[Run], peer: str, other: str, workers: int, read: Callable[[Run], float]
) -> figures.Figure | None:
    """Return how many times a peer has what another has in the same round.

    None if they have no round in common in which the other has more than nothing, which is a tick of the clock.
    """
    pairs = _pairs(runs, (peer, other), workers, read)
    return _figure([mine / others for mine, others in pairs if others])


def _pairs(
    runs: Sequence[Run], peers: tuple[str, str], workers: int, read: Callable[[Run], float]
) -> list[tuple[float, float]]:
    mine, others = (
        {run.round: read(run) for run in runs if (run.peer, run.workers) == (peer, workers)} for peer in peers
    )
    return [(mine[number], others[number]) for number in sorted(mine.keys() & others.keys())]


def _figure(found: Sequence[float]) -> figures.Figure | None:
    return figures.rounds(found) if found else None


def latencies(runs: Sequence[Run], peers: Sequence[Peer], base: str, levels: Sequence[int]) -> str:
    """Return the table of milliseconds that each peer adds to a request."""
    heads = [f"{what} at {level}" for level in levels for what in ("p50", "p99")]
    heads = ["peer", *(f"added {head}, ms" for head in heads), *(f"requests/s at {level}" for level in levels)]
    lines = []
    for peer in peers:
        cells = []
        for level in levels:
            for read in (_p50, _p99):
                if peer.name == base:
                    cells.append(f"({_said(runs, base, level, read)})")
                else:
                    cells.append(_signed(added(runs, peer.name, base, level, read)))
        cells += [_said(runs, peer.name, level, lambda run: run.rate) for level in levels]
        lines.append((peer.title, *cells))
    return markdown.table(heads, lines)


def costs(
    runs: Sequence[Run], peers: Sequence[Peer], base: str, levels: Sequence[int], sizes: Mapping[str, int]
) -> str:
    """Return the table of what each peer uses; `sizes` are bytes of programs by the names of peers."""
    heads = [f"{what} at {level}" for level in levels for what in ("CPU s/1,000", "API server's, more")]
    heads = ["peer", *heads, "idle, cores", "RSS, MiB", "start to ready, s", "program, MB"]
    lines, last = [], levels[-1]
    for peer in peers:
        has = bool(peer.component())
        cells = []
        for level in levels:
            cells.append(_said(runs, peer.name, level, _cpu) if has else _NONE)
            spent = _said(runs, base, level, _api_cpu)
            more = f"({spent})" if peer.name == base else _signed(added(runs, peer.name, base, level, _api_cpu))
            cells.append(more)
        cells += [
            _said(runs, peer.name, last, lambda run: run.idle) if has else _NONE,
            _said(runs, peer.name, last, lambda run: run.memory) if has else _NONE,
            _said(runs, peer.name, last, lambda run: run.started) if has else _NONE,
            f"{sizes[peer.name] / 1e6:.0f}" if sizes.get(peer.name) else _NONE,
        ]
        lines.append((peer.title, *cells))
    return markdown.table(heads, lines)


def ratios(runs: Sequence[Run], peers: Sequence[Peer], others: Sequence[Peer], levels: Sequence[int]) -> str:
    """Return the table of how many times the processor seconds of others each peer uses, in the same round."""
    heads = ["webhook's CPU", *(f"to {other.title}, at {level}" for other in others for level in levels)]
    lines = []
    for peer in peers:
        found = (ratio(runs, peer.name, other.name, level, _cpu) for other in others for level in levels)
        lines.append((peer.title, *(_NONE if each is None else str(each) for each in found)))
    return markdown.table(heads, lines)


def _p50(run: Run) -> float:
    return run.p50


def _p99(run: Run) -> float:
    return run.p99


def _cpu(run: Run) -> float:
    return run.cpu


def _api_cpu(run: Run) -> float:
    return run.api_cpu


def _said(runs: Iterable[Run], peer: str, level: int, read: Callable[[Run], float]) -> str:
    found = _figure(values(runs, peer, level, read))
    return _NONE if found is None else str(found)


def _signed(figure: figures.Figure | None) -> str:
    if figure is None:
        return _NONE
    text = str(figure)
    return text if text.startswith("-") else f"+{text}"
