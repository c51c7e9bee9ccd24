"""Bars with their spread, as SVG without scripts, fonts or colours of a theme: readable on white and on black."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bench.figures import Figure

__all__ = ["bars", "save"]

_LABEL, _WIDTH, _ROW, _TOP, _VALUE = 330, 460, 26, 34, 150
_BAR, _LINE, _TEXT = "#4878a8", "#c05020", "#808080"


def bars(title: str, rows: Sequence[tuple[str, Figure]]) -> str:
    """Return horizontal bars from zero to each median, with a line from the lowest to the highest of all rounds.

    Args:
        title: what the bars are, with its unit.
        rows: label and figure, from top to bottom; what is below zero begins at zero.
    """
    top = max((figure.high for _, figure in rows), default=0) or 1.0
    height = _TOP + _ROW * len(rows) + 8
    size = f'width="{_LABEL + _WIDTH + _VALUE}" height="{height}" viewBox="0 0 {_LABEL + _WIDTH + _VALUE} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<text x="4" y="20" font-weight="bold" fill="{_TEXT}">{escape(title)}</text>',
    ]
    for index, (label, figure) in enumerate(rows):
        y = _TOP + _ROW * index
        low, middle, high = (_place(value, top) for value in (figure.low, figure.median, figure.high))
        middle_line = y + _ROW // 2
        parts += [
            f'<text x="{_LABEL - 8}" y="{middle_line + 4}" text-anchor="end" fill="{_TEXT}">{escape(label)}</text>',
            f'<rect x="{_LABEL}" y="{y + 5}" width="{middle:.1f}" height="{_ROW - 10}" fill="{_BAR}"/>',
            f'<path d="M{_LABEL + low:.1f} {middle_line}H{_LABEL + high:.1f}" stroke="{_LINE}" stroke-width="2"/>',
            f'<text x="{_LABEL + high + 8:.1f}" y="{middle_line + 4}" fill="{_TEXT}">{escape(str(figure))}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def save(folder: Path, name: str, title: str, rows: Sequence[tuple[str, Figure]]) -> str:
    """Write bars into a folder beside the page; return the Markdown that shows them."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.svg").write_text(bars(title, rows), encoding="utf-8")
    return f"![{title}]({folder.name}/{name}.svg)"


def _place(value: float, top: float) -> float:
    return max(value, 0) / top * _WIDTH
