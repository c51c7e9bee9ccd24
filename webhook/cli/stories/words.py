"""Words: what others wrote, quoted in one short line without tokens of a known form, and times as people say them."""

from __future__ import annotations

from muster.audit import scanner
from muster.webhook.cli import problems

__all__ = ["age", "last_words", "listed", "quoted"]

_SHOWN = 300  # characters of a quotation
_READ = 4096
_NAMED = 3  # names in a list


def quoted(text: object, longest: int = _SHOWN) -> str:
    """Return what a controller, the scheduler or a webhook said, as one line without a full stop."""
    line = problems.one_line(scanner.text(str(text or ""), _READ)).rstrip(".")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def last_words(text: object) -> str:
    """Return the last line of what a container left."""
    lines = [line for line in str(text or "")[-_READ:].splitlines() if line.strip()]
    return quoted(lines[-1]) if lines else ""


def age(seconds: float) -> str:
    """Return `40s`, `12m`, `3h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size or (size == 86400 and seconds >= size):
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def listed(names: list[str]) -> str:
    """Return `a, b, c and 2 more`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
