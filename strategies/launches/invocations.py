"""Invocations: how a shell is called, and with which of its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Invocation", "invoked", "set_options"]

_LONG_WITH_VALUE = frozenset({"--rcfile", "--init-file"})
_ENDING = frozenset({"errexit", "pipefail"})


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a shell was called: with a text, a file, or to read its standard input (both None).

    Attributes:
        text: its text.
        file: its file.
        name: `$0`.
        arguments: `$1` and the following.
        options: options of `set` that change how it ends, by full name: errexit, pipefail.
        words: whether words follow its text.
    """

    text: str | None = None
    file: str | None = None
    name: str = "bash"
    arguments: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    words: bool = False


def invoked(words: Sequence[str]) -> Invocation:
    """Read a shell's command line: `bash [options] -c TEXT [name arguments]` or `bash [options] [file arguments]`."""
    at, takes_text, from_input, options = 1, False, False, frozenset[str]()
    while at < len(words) and words[at][:1] in ("-", "+") and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            at += word in _LONG_WITH_VALUE
            continue
        takes_text |= "c" in word[1:] and word[0] == "-"
        from_input |= "s" in word[1:] and word[0] == "-"
        options = set_options(options, word, words[at:])
        at += word.count("o") + word.count("O")
    rest = tuple(words[at:])
    if takes_text:
        name = rest[1] if len(rest) > 1 else words[0]
        return Invocation(rest[0] if rest else "", None, name, rest[2:], options, words=len(rest) > 1)
    if not rest or from_input or rest[0] == "-":
        return Invocation(None, None, words[0], rest, options)
    return Invocation(None, rest[0], rest[0], rest[1:], options)


def set_options(options: frozenset[str], word: str, values: Sequence[str]) -> frozenset[str]:
    """Return the options of a shell after `-e`, `+e` or `-eo pipefail`; `values` are the words behind."""
    named = {"errexit"} if "e" in word else set[str]()
    named |= {*values[: word.count("o")]} & _ENDING
    return options - named if word[0] == "+" else options | named
