"""What somebody else wrote, quoted in one short line without tokens of a known form."""

from __future__ import annotations

from collections.abc import Sequence

from muster.audit import scanner
from muster.webhook.cli.problems import one_line

__all__ = ["last_words", "listed", "quoted"]

_SHOWN = 300  # characters of a quotation
_READ = 4096
_NAMED = 3  # names in a list


def quoted(text: object, longest: int = _SHOWN) -> str:
    """Return what a controller, the scheduler or a webhook said: one line without known tokens and a full stop."""
    line = one_line(scanner.text(str(text or ""), _READ)).rstrip(".")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def last_words(text: object) -> str:
    """Return the last line of what a container left."""
    lines = [line for line in str(text or "")[-_READ:].splitlines() if line.strip()]
    return quoted(lines[-1]) if lines else ""


def listed(names: Sequence[str]) -> str:
    """Return `a, b, c and 2 more`."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
