"""Problems: errors that end a command with one line on stderr and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

__all__ = [
    "CLEAN",
    "FOUND",
    "INTERRUPTED",
    "NOTHING",
    "PIPE_CLOSED",
    "TERMINATED",
    "UNREADABLE",
    "CommandError",
    "age",
    "clean",
    "one_line",
    "plural",
    "say",
    "schema",
    "versioned",
    "warn",
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


def warn(texts: Iterable[str]) -> None:
    """Write lines on stderr."""
    for text in texts:
        print(text, file=sys.stderr)


def plural(count: int, noun: str) -> str:
    """Return `1 job`, `2 jobs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def age(seconds: float) -> str:
    """Return `40s`, `12m`, `3h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size or (size == 86400 and seconds >= size):
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def schema(command: str) -> str:
    """Return the version of what a command prints: `muster.dev/check/v1`.

    Members are only ever added to a version; where one goes or changes its meaning, the version gets a new number.
    """
    return f"muster.dev/{command}/v1"


def versioned(command: str, items: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return the items of a list, each with its version."""
    return [{"schema": schema(command), **each} for each in items]
