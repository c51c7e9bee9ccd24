"""Secrets among the words of a command: values of secret flags, and of the short flags that programs have for them.

`--hub_token x` says by its name what follows. `curl -u bob:pw` does not: which short flag takes a secret, each program
says for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["HINTS", "parts"]


@dataclass(frozen=True, slots=True)
class _Program:
    """What a program takes.

    Attributes:
        flags: those with a secret.
        glued: whether the secret may follow a short flag in the same word.
        named: whether the flags mean this only after the word `login`, so that `docker run -p 80:80` stays readable.
        key: whether the word after `login` is a secret.
    """

    flags: tuple[str, ...] = ()
    glued: bool = True
    named: bool = False
    key: bool = False


_PASSWORD = _Program(("-p",))
_LOGIN = _Program(("-p",), named=True)
_KEY = _Program(key=True)
_PROGRAMS = {
    "curl": _Program(("-u", "-U", "--user", "--proxy-user", "-b", "--cookie", "--pass")),
    "http": _Program(("-a",)),
    "sshpass": _PASSWORD,
    "mysql": _PASSWORD,
    "mysqldump": _PASSWORD,
    "mysqladmin": _PASSWORD,
    "mariadb": _PASSWORD,
    "mongo": _PASSWORD,
    "mongosh": _PASSWORD,
    "mongodump": _PASSWORD,
    "docker": _LOGIN,
    "podman": _LOGIN,
    "nerdctl": _LOGIN,
    "buildah": _LOGIN,
    "skopeo": _LOGIN,
    "crane": _LOGIN,
    "oras": _LOGIN,
    "helm": _LOGIN,
    "az": _LOGIN,
    "redis-cli": _Program(("-a",)),
    "smbclient": _Program(("-U",)),
    "ldapsearch": _Program(("-w",)),
    "sqlcmd": _Program(("-P",)),
    "zip": _Program(("-P",)),
    "unzip": _Program(("-P",)),
    "7z": _Program(("-p",)),
    "openssl": _Program(("-passin", "-passout", "-pass", "-k", "-K"), glued=False),
    "ssh-keygen": _Program(("-N", "-P")),
    "twine": _PASSWORD,
    "wandb": _KEY,
    "vault": _KEY,
    "doctl": _Program(("-t",)),
    "huggingface-cli": _KEY,
}
HINTS = (
    "curl", "sshpass", "mysql", "mariadb", "mongo", "login", "redis-cli", "smbclient", "ldapsearch", "sqlcmd", "zip",
    "7z", "openssl", "ssh-keygen", "twine", "doctl", "http ",
)  # fmt: skip
"""Lower-case pieces, one of which is in every command in which a program alone says that a word is secret."""

_HEADERS = frozenset({"-H", "--header", "--proxy-header"})
_HEADER = re.compile(r"(?P<name>[A-Za-z][\w-]{0,100})[ \t]*:[ \t]*")
_SETTERS = frozenset({"set", "config", "setenv", "setx", "ENV", "add", "--add", "--global", "--local", "--system"})
_SPEAKERS = frozenset({"echo", "printf"})
_LISTENERS = frozenset({"login", "--password-stdin", "--with-token", "--token-stdin", "--stdin"})
_HANDED = "<<<"
_OPERATORS = frozenset({"<<", "<<-", _HANDED})
_LONGEST_PROGRAM = 64
_NONE = _Program()


def parts(words: Sequence[str], judge: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield where secrets begin: the number of the word, and of its first secret character.

    Args:
        words: the words of one command, or a list of arguments.
        judge: decides about names.
    """
    program, logs_in, before, earlier = _NONE, False, "", ""
    handed = _HANDED in words and (is_told_a_secret(words) or any(map(judge, words)))
    for index, word in enumerate(words):
        if not word.startswith("-") and before not in _HEADERS:
            named = _PROGRAMS.get(word[-_LONGEST_PROGRAM:].rpartition("/")[2])
            program, logs_in = (named, False) if named else (program, logs_in or word == "login")
        active = program if logs_in or not program.named else _NONE
        start = _start(word, before, earlier, active, judge)
        if (handed and before == _HANDED) or (active.key and logs_in and _is_key(word, before)):
            start = 0
        if start is not None and start < len(word):
            yield index, start
        before, earlier = word, before


def is_told_a_secret(words: Sequence[str]) -> bool:
    """Whether a command logs in with what it is told over a pipe."""
    return not _LISTENERS.isdisjoint(words)


def said(words: Sequence[str]) -> Iterable[int]:
    """Return the numbers of the words that a command hands over, empty when it is not one that only says them."""
    if not words or words[0] not in _SPEAKERS:
        return ()
    return [index for index, word in enumerate(words) if index and not word.startswith(("-", "%"))]


def _is_key(word: str, before: str) -> bool:
    """Whether a word after `login` is a key: no flag, and no server."""
    return word != "login" and not word.startswith("-") and "://" not in word and before != "--host"


def _start(word: str, before: str, earlier: str, program: _Program, judge: Callable[[str], bool]) -> int | None:
    """Return where the secret in `word` begins, None when there is none."""
    is_value = word not in _OPERATORS and not word.startswith("--")
    if is_value and before.startswith("-") and _takes_secret(before, program, judge):
        return 0
    if before in _HEADERS or word.startswith("-H"):
        match = _HEADER.match(word, 0 if before in _HEADERS else 2)
        return match.end() if match and judge(match["name"]) else None
    if word.startswith("-"):
        return _glued(word, program)
    return 0 if earlier in _SETTERS and not before.startswith("-") and judge(before) else None


def _glued(word: str, program: _Program) -> int | None:
    name, equals, _ = word.partition("=")
    if equals and name in program.flags:
        return len(name) + 1
    short = word[:2]
    return 2 if program.glued and short != "--" and short in program.flags and len(word) > 2 else None


def _takes_secret(flag: str, program: _Program, judge: Callable[[str], bool]) -> bool:
    return flag in program.flags or ("=" not in flag and judge(flag))
