"""Problems: errors that end a command with one line on stderr and an exit code."""

from __future__ import annotations

import sys

__all__ = [
    "CLEAN",
    "FOUND",
    "INTERRUPTED",
    "NOTHING",
    "PIPE_CLOSED",
    "TERMINATED",
    "UNREADABLE",
    "CommandError",
    "clean",
    "one_line",
    "say",
]

CLEAN = 0
FOUND = 1
"""Errors were found in jobs, or a log is broken."""
UNREADABLE = 2
"""Input cannot be read, or the command was called wrongly."""
NOTHING = 3
"""Nothing was found that the command looks at."""
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
TERMINATED = 143
"""128 + SIGTERM, as shells report it."""
PIPE_CLOSED = 141
"""128 + SIGPIPE, as shells report it."""


class CommandError(Exception):
    """The command cannot continue; the message is printed after `muster: `."""


def one_line(text: object) -> str:
    """Return a text as one printable line."""
    return clean(" ".join(str(text).split()))


def clean(text: str) -> str:
    """Return a text with control characters written as escapes, so that a terminal only shows them."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def say(message: str) -> None:
    """Write a message on stderr, each of its lines after `muster: `."""
    for line in message.splitlines():
        print(f"muster: {clean(line)}", file=sys.stderr, flush=True)
