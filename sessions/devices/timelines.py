"""The lease of a device as a picture: a row for each session, in which its trainer and its sampler have the device."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from muster.sessions.devices.spans import Span

__all__ = ["summary", "svg"]

_LABEL, _WIDTH, _ROW, _TOP, _BOTTOM = 190, 760, 34, 58, 34
_TEXT, _LEAVING = "#808080", "#c05020"
_COLOURS = {"trainer": "#4878a8", "sampler": "#58a068"}
_LONGEST = 26  # characters of a label
_TICKS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)  # seconds between two


def summary(spans: Sequence[Span]) -> str:
    """Return in one line for how much of the time the device computed, was idle or given from one to the next.

    Args:
        spans: of one device, at least one.
    """
    begin, end = _bounds(spans)
    working, idle, leaving = (sum(getattr(each, name) for each in spans) for name in ("working", "idle", "leaving"))
    parts = zip(("computing", "idle with memory", "changing hands"), (working, idle, leaving), strict=True)
    shares = ", ".join(f"{name} {_share(seconds, end - begin)}" for name, seconds in parts)
    return f"{len(spans)} grants in {end - begin:.0f} s: {shares}"


def svg(spans: Sequence[Span]) -> str:
    """Return the picture, readable on white and on black.

    Args:
        spans: of one device, at least one.
    """
    begin, end = _bounds(spans)
    scale = _WIDTH / max(end - begin, 1e-3)
    sessions = sorted({each.session for each in spans})
    height = _TOP + _ROW * len(sessions) + _BOTTOM
    size = f'width="{_LABEL + _WIDTH + 20}" height="{height}" viewBox="0 0 {_LABEL + _WIDTH + 20} {height}"'
    title = f"Whose turn it was on {spans[0].device}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<text x="4" y="18" font-weight="bold" fill="{_TEXT}">{escape(title)}</text>',
        f'<text x="4" y="36" fill="{_TEXT}">{escape(summary(spans))}</text>',
        *_legend(),
    ]
    for row, session in enumerate(sessions):
        y = _TOP + _ROW * row
        label = session if len(session) <= _LONGEST else f"…{session[1 - _LONGEST :]}"
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 20}" text-anchor="end" fill="{_TEXT}">{escape(label)}</text>')
        for each in (span for span in spans if span.session == session):
            parts += _bar(each, _LABEL + (each.begin - begin) * scale, y + 6, scale)
    return "\n".join([*parts, *_axis(end - begin, scale, height), "</svg>", ""])


def _bar(span: Span, x: float, y: float, scale: float) -> list[str]:
    """Return what an engine had, and after that, in another colour, how long it took to leave."""
    held, leaving = (span.working + span.idle) * scale, span.leaving * scale
    colour = _COLOURS.get(span.role, _TEXT)
    told = f"{span.role}: {span.working:.1f} s at work, {span.idle:.1f} s idle, {span.leaving:.1f} s to leave"
    shape = f'y="{y}" height="{_ROW - 12}"'
    return [
        f'<rect x="{x:.1f}" width="{held:.2f}" {shape} fill="{colour}"><title>{escape(told)}</title></rect>',
        f'<rect x="{x + held:.1f}" width="{leaving:.2f}" {shape} fill="{_LEAVING}"/>',
    ]


def _legend() -> list[str]:
    parts, x = [], _LABEL + _WIDTH - 250
    for name, colour in (*_COLOURS.items(), ("leaving", _LEAVING)):
        parts.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="18" fill="{_TEXT}">{name}</text>')
        x += 85
    return parts


def _axis(seconds: float, scale: float, height: int) -> list[str]:
    step = next((each for each in _TICKS if seconds / each <= 12), _TICKS[-1])
    line = f'<path d="M{_LABEL} {height - _BOTTOM + 2}h{_WIDTH}" stroke="{_TEXT}"/>'
    place = f'y="{height - 12}" text-anchor="middle" fill="{_TEXT}"'
    ticks = range(0, min(int(seconds), 12 * step) + 1, step)
    return [line, *(f'<text x="{_LABEL + at * scale:.1f}" {place}>{at} s</text>' for at in ticks)]


def _bounds(spans: Sequence[Span]) -> tuple[float, float]:
    return min(each.begin for each in spans), max(each.end for each in spans)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / max(whole, 1e-9):.0f} %"
