"""The reward of a run as a picture: for a terminal, and as SVG that reads in both colour schemes."""

from __future__ import annotations

from collections.abc import Sequence

from muster.sessions.demo.loop import Step

__all__ = ["svg", "text"]

_BAR = 40
_WIDTH, _HEIGHT, _MARGIN = 640, 260, 48


def text(step: Step) -> str:
    """Return one line: the step, its reward, a bar."""
    return f"  step {step.number:2}   reward {step.reward:4.2f}  {'█' * round(step.reward * _BAR)}"


def svg(steps: Sequence[Step]) -> str:
    """Return a line through the rewards."""
    wide, high = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN
    across = wide / max(1, len(steps) - 1)
    points = [(_MARGIN + at * across, _MARGIN + (1 - each.reward) * high) for at, each in enumerate(steps)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
    rules = "".join(
        f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{y}" y2="{y}" stroke-opacity=".25"/>'
        f'<text x="{_MARGIN - 8}" y="{y + 4}" text-anchor="end" stroke="none">{value:.1f}</text>'
        for value in (0.0, 0.5, 1.0)
        for y in [round(_MARGIN + (1 - value) * high)]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' role="img" aria-label="Reward by step"'
        ' font-family="sans-serif" font-size="12" fill="#7a8599" stroke="#7a8599">'
        f"{rules}"
        f'<g fill="#2f81f7" stroke="#2f81f7"><polyline points="{line}" fill="none" stroke-width="2"/>{dots}</g>'
        f'<text x="{_WIDTH // 2}" y="{_HEIGHT - 12}" text-anchor="middle" stroke="none">step</text>'
        f'<text x="{_MARGIN}" y="24" stroke="none">mean reward</text></svg>\n'
    )
