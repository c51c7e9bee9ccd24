"""What a shell does itself: its options, its own commands, what `echo`, `printf` and `cat` print; and common programs.

A script or a list of hosts is often printed by a shell, and then run or read. The rules are those of bash 5.2 (`echo`,
`printf`) and of POSIX.1-2024 for the conversions. What depends on more than the words is not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

__all__ = ["PROGRAMS", "Invocation", "invoked", "is_detached", "printed", "set_options", "unwrapped"]

_LONG_WITH_VALUE = frozenset({"--rcfile", "--init-file"})
_ENDING = frozenset({"errexit", "pipefail"})
_FLAGS = r"-[neE]+"
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\", "r": "\r", '"': '"', "'": "'"}
_CONVERSION = re.compile(r"%(.)", re.DOTALL)
_LONGEST = 65_536  # characters of what is printed


PROGRAMS: Mapping[str, frozenset[str]] = {
    table: frozenset(" ".join(lines).split())
    for table, lines in json.loads(Path(__file__).with_name("programs.json").read_text("utf-8")).items()
}
"""Programs, and builtins, by what is known of them.

`idle` ones start nothing and set nothing, `declaring` and `reading` ones set variables, `leaving` ones end the shell or
a function; `brief` ones end at once, so that nothing beside them has time to end; `succeeding` ones certainly succeed;
the status of `tests` answers a question; `preparing` ones, and `preparing_modules` of python, neither train nor start
another program that does.
"""


class Invocation(Struct, frozen=True):
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


def unwrapped(words: Sequence[str]) -> tuple[list[str], bool]:
    """Take `exec`, `command` and `builtin` off; tell whether the program replaces the shell."""
    replaces, at = False, 0
    while at < len(words) and (taken := words[at]) in ("exec", "command", "builtin"):
        replaces = replaces or taken == "exec"
        at += 1
        while at < len(words) and words[at].startswith("-"):
            if taken == "command" and words[at][1:2] in ("v", "V"):
                return [], False
            at += 2 if taken == "exec" and words[at] == "-a" else 1
    return list(words[at:]), replaces and at < len(words)


def is_detached(words: Sequence[str]) -> bool:
    """Tell whether a program ends before what it starts."""
    flags = [word for word in words[1:6] if word[:1] == "-"]
    if words[0] == "setsid":
        return any(word in ("-f", "--fork") for word in flags) and not any(word in ("-w", "--wait") for word in flags)
    return words[0] in ("tmux", "screen") and any("d" in word[1:] and word[:2] != "--" for word in flags)


def printed(words: Sequence[str], stdin: str | None) -> str | None:
    """Return what a command prints, None where that is not known.

    Args:
        words: the command, expanded.
        stdin: the here-document that it reads; None for none.
    """
    name, rest = words[0], words[1:]
    if name == "cat":
        return stdin if not rest else None
    if name == "printf" and rest and not rest[0].startswith("-"):
        return _printf(rest[0], rest[1:])
    if name != "echo":
        return None
    at = next((index for index, word in enumerate(rest) if not re.fullmatch(_FLAGS, word)), len(rest))
    flags, text = "".join(rest[:at]), " ".join(rest[at:])
    read = _unescaped(text) if "e" in flags else text
    return None if read is None else read + ("" if "n" in flags else "\n")


def _printf(form: str, words: Sequence[str]) -> str | None:
    """Print a form as often as there are words for it, at least once."""
    read = _unescaped(form)
    kinds = _CONVERSION.findall(form)
    if read is None or any(kind not in "sd%" for kind in kinds):
        return None
    each = len([kind for kind in kinds if kind != "%"])
    rounds = max(-(-len(words) // each), 1) if each else 1
    if rounds * len(read) + sum(map(len, words)) > _LONGEST:
        return None
    left = iter(words)
    return "".join(
        _CONVERSION.sub(lambda found: "%" if found[1] == "%" else next(left, ""), read) for _ in range(rounds)
    )


def _unescaped(text: str) -> str | None:
    """Return a text without its escapes; None where one of them is another than those of lines and quotes."""
    if any(found not in _ESCAPED for found in _ESCAPE.findall(text)):
        return None
    return _ESCAPE.sub(lambda found: _ESCAPED[found[1]], text)
