"""Quotes: what findings show of a command line, which is what Muster knows it by and nothing else.

Any word of a command may be a secret that nothing nearby says: `login hunter2`. So of a shell only its options are
shown, of a program that Muster does not know only its name, and of a launcher its own words and what it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from muster.strategies.launches.launches import Launch, Launcher, parse

__all__ = ["command", "flag", "launch", "program", "variable"]

_LONGEST = 120  # characters of a quote
_WORD = 40  # characters of one word
_WORDS = 3
_VARIABLE = r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*|[0-9@*#])"


def command(argv: Sequence[str]) -> str | None:
    """Return the beginning of a command line, at most three words of it; None for none."""
    if not argv:
        return None
    read = parse(argv)
    if read.launcher is Launcher.SHELL:
        return _joined((program(argv[0]), *_options(argv[1:])))
    if read.launcher is Launcher.OTHER:
        return program(argv[0])
    return _joined((program(argv[0]), *read.head[1:], *_target(read))[:_WORDS])


def launch(read: Launch) -> str:
    """Return a launch with the launcher's own options, without the arguments of what it starts."""
    return _joined((*map(program, read.head[:1]), *read.head[1:], *read.options, *_target(read)))


def program(word: str) -> str:
    """Return the first word of a command; one that is a whole command line is quoted up to its first blank."""
    first = next(iter(word[: 2 * _LONGEST].split(maxsplit=1)), "")
    return _short(first) if len(first) == len(word) else f"{_short(first)} …"


def flag(word: str) -> str:
    """Return the name of a flag without a value that is written behind it: `-p` of `-pword`, `--a` of `--a=b`."""
    return _short(word.partition("=")[0]) if word.startswith("--") else word[:2]


def variable(word: str) -> str:
    """Return the first variable in a word of a shell, without what stands for it when it is not set."""
    match = re.search(_VARIABLE, word, flags=re.ASCII)
    return _short(match.group().replace("{", "")) if match else "a word that a command prints"


def _options(words: Iterable[str]) -> Iterator[str]:
    """Yield the options of a shell up to its text, or its file."""
    for word in words:
        if word[:1] not in ("-", "+"):
            yield program(word)
            return
        yield flag(word) if word.startswith("--") else _short(word)
        if "c" in word[1:] and not word.startswith("--"):
            return


def _target(read: Launch) -> tuple[str, ...]:
    """Return what is started; of `python -c`, whose text may stand in the same word, the option alone."""
    if not read.target:
        return ()
    is_text = read.launcher is Launcher.PYTHON and read.target.startswith("-")
    return (flag(read.target) if is_text else program(read.target),)


def _joined(words: Iterable[str]) -> str:
    """Join whole words as long as they fit: half a word may be half of a secret, which nobody recognises."""
    kept: list[str] = []
    room = _LONGEST
    for word in words:
        room -= len(word) + 1
        if room < 0:
            return " ".join([*kept, "…"])
        kept.append(word)
    return " ".join(kept)


def _short(word: str) -> str:
    return str(word) if len(word) <= _WORD else f"{word[: _WORD - 3]}..."
