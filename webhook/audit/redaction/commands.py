"""Secrets among the words of a command: values of secret flags, and what each program takes for one (`programs`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from muster.webhook.audit.redaction import programs
from muster.webhook.audit.redaction.programs import HINTS, Use

__all__ = ["HINTS", "parts"]

_HEADERS = frozenset({"-H", "--header", "--proxy-header"})
_HEADER = re.compile(r"(?P<name>[A-Za-z][\w-]{0,100})[ \t]*:[ \t]*")
_SETTERS = frozenset(
    {"set", "config", "setenv", "setx", "ENV", "add", "--add", "--arg", "--global", "--local", "--system"}
)
_SPEAKERS = frozenset({"echo", "printf"})
_LISTENERS = frozenset({"login", "--password-stdin", "--with-token", "--token-stdin", "--stdin"})
_HANDED = "<<<"
_OPERATORS = frozenset({"<<", "<<-", _HANDED})
_LONGEST_PROGRAM = 64
_MOST_PROGRAMS = 3


def parts(words: Sequence[str], judge: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield where secrets begin: the number of the word, and of its first secret character.

    Args:
        words: the words of one command, or a list of arguments.
        judge: decides about names.
    """
    running, before, earlier = _Running(), "", ""
    handed = _HANDED in words and (is_told_a_secret(words) or any(map(judge, words)))
    for index, word in enumerate(words):
        start = _start(word, before, earlier, running, judge)
        if not word.startswith("-") and before not in _HEADERS:
            place = running.met(word, before)
            start = place if start is None else start
        if handed and before == _HANDED:
            start = 0
        if start is not None and start < len(word):
            yield index, start
        before, earlier = word, before


class _Running:
    """The last programs among the words of a command: one may start another, or be an argument of it.

    Only the last one has its flags, but words that are known by their place are those of any.
    """

    def __init__(self) -> None:
        self._programs: list[dict[Use, int]] = []  # each use with the number of words since its beginning, or -1

    def takes(self, flag: str) -> bool:
        """Whether the last program takes a secret by this flag."""
        return any(flag in use.flags for use, count in self._last() if count >= 0)

    def glued(self, word: str) -> int | None:
        """Return where a secret begins that follows its flag in the same word, None where there is none."""
        name, equals, _ = word.partition("=")
        short = word[:2]
        for use, count in self._last():
            if count < 0:
                continue
            if equals and name in use.flags:
                return len(name) + 1
            if use.glued and short != "--" and short in use.flags and len(word) > len(short):
                return len(short)
        return None

    def met(self, word: str, before: str) -> int | None:
        """Note a word that is not a flag, and return where it has a secret because of its place, None for nowhere."""
        found = None
        for each in self._programs:
            for use, count in each.items():
                if count < 0:
                    each[use] = 0 if word == use.after else -1
                    continue
                each[use] = count + 1
                if use.first is not None and count >= use.first and "://" not in word and before != "--host":
                    found = 0
                elif use.members and "=" in word and found is None:
                    found = word.index("=") + 1
        uses = programs.PROGRAMS.get(word[-_LONGEST_PROGRAM:].rpartition("/")[2])
        if uses:
            self._programs = [{use: -1 if use.after else 0 for use in uses}, *self._programs[: _MOST_PROGRAMS - 1]]
        return found

    def _last(self) -> Iterable[tuple[Use, int]]:
        return self._programs[0].items() if self._programs else ()


def is_told_a_secret(words: Sequence[str]) -> bool:
    """Whether a command logs in with what it is told over a pipe."""
    return not _LISTENERS.isdisjoint(words)


def said(words: Sequence[str]) -> Iterable[int]:
    """Return the numbers of the words that a command hands over, empty when it is not one that only says them."""
    if not words or words[0] not in _SPEAKERS:
        return ()
    return [index for index, word in enumerate(words) if index and not word.startswith(("-", "%"))]


def _start(word: str, before: str, earlier: str, running: _Running, judge: Callable[[str], bool]) -> int | None:
    """Return where the secret in `word` begins that its flag or its name tells, None when there is none."""
    is_value = word not in _OPERATORS and not word.startswith("--")
    if is_value and before.startswith("-") and (running.takes(before) or ("=" not in before and judge(before))):
        return 0
    if before in _HEADERS or word.startswith("-H"):
        match = _HEADER.match(word, 0 if before in _HEADERS else 2)
        return match.end() if match and judge(match["name"]) else None
    if word.startswith("-"):
        return running.glued(word)
    return 0 if earlier in _SETTERS and not before.startswith("-") and judge(before) else None
