"""Expansions: what becomes of a reference to a variable of the container, as far as the documents of a job tell.

A launch holds `$(NAME)` for a variable, and `${NAME:-word}` for one with a default
(`muster.strategies.shell`). Both mean the container's env, also where the shell has changed the variable
since.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from muster.strategies.documents import names
from muster.strategies.shell import calculated

__all__ = ["compute", "expand", "resolve", "resolve_own", "take_defaults"]

_REFERENCE = r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)"
_DEFAULT = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:?)-([^${}]*)\}"
_NESTED = 3
_ALWAYS_SET = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "JOB_COMPLETION_INDEX", "HOSTNAME", "HOME", "PATH", "PWD", "USER", "UID", "RANDOM"}
)
"""Kubernetes, Muster, images and shells set these."""


def resolve(text: str, env: Mapping[str, str | None]) -> str:
    """Replace each `$(NAME)` whose value is known, as Kubernetes does; the others stay, and hold a `$`.

    Source: kubernetes v1.36.3 `third_party/forked/golang/expansion/expand.go`.
    """

    def known(found: re.Match[str]) -> str:
        value = env.get(found[1])
        return found[0] if value is None else value

    return re.sub(_REFERENCE, known, text) if "$" in text else text


def resolve_own(text: str, env: Mapping[str, str | None]) -> str:
    """Do the same, but for variables that Muster may write: at a second review they are there, and at the first not."""

    def known(found: re.Match[str]) -> str:
        value = None if names.is_written(found[1]) else env.get(found[1])
        return found[0] if value is None else value

    return re.sub(_REFERENCE, known, text) if "$" in text else text


def expand(text: str, env: Mapping[str, str | None]) -> str:
    """Replace each `$(NAME)` whose value is known; the others become `$( NAME )`, which nothing resolves later."""

    def known(found: re.Match[str]) -> str:
        value = env.get(found[1])
        return f"$( {found[1]} )" if value is None else value

    return re.sub(_REFERENCE, known, text) if "$" in text else text


def compute(text: str, env: Mapping[str, str | None]) -> str:
    """Replace each `$((A * 4))` of whole numbers and of variables whose values are known; others stay as they are."""
    if "$((" not in text:
        return text

    def known(found: re.Match[str]) -> str:
        value = calculated(found[1], env)
        return found[0] if value is None or value < 0 else str(value)

    return re.sub(_ARITHMETIC, known, text)


_ARITHMETIC = r"\$\(\(([^()]{1,120})\)\)"


def take_defaults(text: str, env: Mapping[str, str | None]) -> tuple[str, frozenset[str]]:
    """Replace each `${NAME:-word}` that the documents decide.

    Args:
        text: the text.
        env: env of the container; None for a value that is not known.

    Returns:
        The text, and the variables of which the default was taken because no document sets them: the image still may.
    """
    assumed: set[str] = set()

    def known(found: re.Match[str]) -> str:
        name, colon, word = found.groups()
        value = env.get(name)
        if name in env:
            return found[0] if value is None or "$" in value else value or (word if colon else "")
        if name in _ALWAYS_SET or name.startswith("PET_"):
            return found[0]
        assumed.add(name)
        return str(word)

    for _ in range(_NESTED):
        before, text = text, re.sub(_DEFAULT, known, text) if "${" in text else text
        if text == before:
            break
    return text, frozenset(assumed)
