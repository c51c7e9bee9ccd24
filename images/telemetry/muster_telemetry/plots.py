"""The plot of a run as SVG, made of the rows that its trainer logged: one panel for each measure.

It has no script, no font and no text of anybody else, and its size has a limit however long the run was: of many rows
that fall on one place, the smallest and the largest value are drawn, so that no peak is lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster_telemetry import measures

__all__ = ["NAME", "draw", "write"]

NAME = "muster-training.svg"
_PLACES = 240  # of which each has up to two points
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 720, 130, 70, 26, 12
_ROUNDING = 1e-5  # a share; what differs by less is the same
_Point = tuple[float, float]
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.n{fill:#777;text-anchor:end}.v{text-anchor:end}"
    ".f{fill:none;stroke:#ddd}.l{fill:none;stroke:#1f6feb;stroke-width:1.5}.p{fill:#1f6feb}"
)


def draw(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the plot; None where no row says anything.

    Args:
        rows: as transformers keeps them in `TrainerState.log_history`, each with its `step`.
    """
    points = _points(rows)
    shown = [each for each in measures.MEASURES if points[each.name]]
    if not shown:
        return None
    steps = [step for each in shown for step, _ in points[each.name]]
    first, last = min(steps), max(steps)
    height = _HEIGHT * len(shown) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, each in enumerate(shown):
        lines += _panel(each.title, points[each.name], (first, last), _HEIGHT * number)
    lines += [
        f'<text x="{_LEFT}" y="{height - 8}">step {first:.10g}</text>',
        f'<text class="v" x="{_WIDTH - 10}" y="{height - 8}">step {last:.10g}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def write(rows: Sequence[Mapping[str, Any]], folder: Path) -> Path | None:
    """Write the plot into a folder, in one step; returns the file, or None where there is nothing to draw.

    Raises:
        OSError: it cannot be written.
    """
    text = draw(rows)
    if text is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{NAME}-{os.getpid()}"
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(folder / NAME)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return folder / NAME


def _points(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[_Point]]:
    found: dict[str, list[_Point]] = {each.name: [] for each in measures.MEASURES}
    for row in rows:
        step = measures.number(row.get("step"))
        for name, value in measures.values(row).items() if step is not None else ():
            found[name].append((step or 0.0, value))
    return found


def _panel(title: str, points: Sequence[_Point], steps: tuple[float, float], top: float) -> Iterator[str]:
    low, high = min(value for _, value in points), max(value for _, value in points)
    if high - low <= _ROUNDING * max(abs(low), abs(high)):
        low = high = points[-1][1]
    inner, right = _HEIGHT - _TOP - _BOTTOM, _WIDTH - 10
    across, up = (right - _LEFT) / ((steps[1] - steps[0]) or 1.0), inner / ((high - low) or 1.0)
    placed = [
        (_LEFT + (step - steps[0]) * across, top + _TOP + inner - (value - low) * up if high > low else top + _TOP)
        for step, value in _few(points)
    ]
    yield f'<text x="{_LEFT}" y="{top + _TOP - 8}">{title}</text>'
    yield f'<text class="v" x="{right}" y="{top + _TOP - 8}">last {points[-1][1]:.4g}</text>'
    yield f'<rect class="f" x="{_LEFT}" y="{top + _TOP}" width="{right - _LEFT}" height="{inner}"/>'
    yield f'<text class="n" x="{_LEFT - 6}" y="{top + _TOP + 10}">{high:.6g}</text>'
    if high != low:
        yield f'<text class="n" x="{_LEFT - 6}" y="{top + _TOP + inner}">{low:.6g}</text>'
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    if len(placed) > 1:
        yield f'<polyline class="l" points="{text}"/>'
    else:
        yield f'<circle class="p" cx="{placed[0][0]:.1f}" cy="{placed[0][1]:.1f}" r="2.5"/>'


def _few(points: Sequence[_Point]) -> list[_Point]:
    """Return the points, or of each run of many the smallest and the largest, in their order."""
    many = -(-len(points) // _PLACES)
    if many <= 2:
        return [*points]
    found = []
    for start in range(0, len(points), many):
        run = range(start, min(start + many, len(points)))
        ends = {min(run, key=lambda at: points[at][1]), max(run, key=lambda at: points[at][1])}
        found += [points[at] for at in sorted(ends)]
    return found
