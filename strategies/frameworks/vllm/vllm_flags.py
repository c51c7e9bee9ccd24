"""The flags and words of the supported vLLM, without importing vLLM.

The tables lie in `strategies/upstream/vllm`: tests/contract/vllm prints `flags.json` from the parser that vLLM builds
itself, `elsewhere.json` (flags that only other versions have) and `words.json` (quantizations, parsers, variables).
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import TypedDict, cast

from muster.strategies import upstream
from muster.strategies.frameworks.flag_tables import Entry, Flags, FlagSpec

__all__ = ["closest", "elsewhere", "every", "known", "spec", "version", "words"]

_LONGEST_GUESS = 64
_SURE = 0.92
"""Flags of different versions are less alike than this, and misspelled ones more."""


class _Table(TypedDict):
    vllm: str
    flags: dict[str, Entry]


def _table() -> _Table:
    return cast("_Table", upstream.data("vllm", "flags"))


@functools.cache
def every() -> Flags:
    """Return all flags."""
    return Flags(_table()["flags"])


def spec(flag: str) -> FlagSpec | None:
    """Return the flag of an exact spelling (`-tp`, `--no-enable-lora`), None for an unknown one."""
    return every().specs.get(flag)


def known(flag: str) -> FlagSpec:
    """Return the flag of an exact spelling.

    Raises:
        KeyError: vLLM has no such flag.
    """
    return every().specs[flag]


def version() -> str:
    """Return the version of vLLM that the table was printed from."""
    return _table()["vllm"]


def elsewhere(flag: str) -> list[str]:
    """Return the versions of vLLM, of those that were read, that have a flag which the supported one lacks."""
    found, name = cast("dict[str, list[str]]", upstream.data("vllm", "elsewhere")), flag.removeprefix("--no-")
    return found.get(flag) or found.get(f"--{name}", [])


def words(kind: str) -> Mapping[str, list[str] | str]:
    """Return words of one kind with the versions that know them; for `env`, variables with what vLLM makes of them."""
    return cast("dict[str, dict[str, list[str] | str]]", upstream.data("vllm", "words"))[kind]


def closest(flag: str) -> tuple[str, bool] | None:
    """Return the flag that an unknown `flag` probably means and whether that is sure in any version, or None."""
    name = flag.lstrip("-")[:_LONGEST_GUESS]
    found = every().guesses.closest(name)
    return None if not found else (f"--{found}", difflib.SequenceMatcher(None, found, name).ratio() >= _SURE)
