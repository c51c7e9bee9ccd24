"""The flags and words of the supported vLLM, without importing vLLM.

The tables lie in `strategies/upstream/vllm`: tests/contract/vllm prints `flags.json` from the parser that vLLM builds
itself, `elsewhere.json` (flags that only other versions have) and `words.json` (quantizations, parsers, variables).
"""

from __future__ import annotations

import difflib
import functools
from bisect import bisect_left
from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict, cast

from msgspec import Struct, field

from muster.strategies import upstream
from muster.strategies.launches.guesses import Guesses

__all__ = ["NEAR", "FlagSpec", "Nargs", "closest", "completions", "elsewhere", "known", "spec", "version", "words"]

Nargs: TypeAlias = Literal[0, 1, "?", "+"]

NEAR = 0.75
"""The least ratio of `difflib` at which a word may stand for another."""
_LONGEST_GUESS = 64
_SURE = 0.92
"""Flags of different versions are less alike than this, and misspelled ones more."""


class _Entry(TypedDict, total=False):
    nargs: Nargs
    type: str
    spellings: list[str]
    choices: list[str]
    repeats: bool
    default: str | int | float
    range: dict[str, float]
    members: dict[str, list[str]]


class _Table(TypedDict):
    vllm: str
    flags: dict[str, _Entry]


class FlagSpec(Struct, frozen=True):
    """One flag.

    Attributes:
        name: its long name without dashes in front: `tensor-parallel-size` of `-tp`.
        nargs: how many values follow: none, exactly one, at most one, one or more.
        kind: conversion of a value: `int`, `float`, `str`, `json`, `object` (JSON within braces, or a word), `count`
            (`16k`), with `|none` where the word None is
            allowed and `|auto` where auto is; `own` is a function of vLLM's own and not checked here.
        choices: the allowed values; empty for any.
        repeats: whether each time adds a value, instead of replacing the one before.
        default: its value where it is missing, None where it has none.
        limits: what vLLM's configuration asks of a number: `gt`, `ge`, `lt` or `le` and the limit.
        members: the members that its JSON may have, each with the words that it takes, none for any value; empty where
            any member is taken.
    """

    name: str
    nargs: Nargs
    kind: str
    choices: tuple[str, ...] = ()
    repeats: bool = False
    default: str | int | float | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    members: Mapping[str, list[str]] = field(default_factory=dict)


@functools.cache
def _table() -> _Table:
    return cast("_Table", upstream.data("vllm", "flags"))


@functools.cache
def _specs() -> Mapping[str, FlagSpec]:
    out: dict[str, FlagSpec] = {}
    for name, entry in _table()["flags"].items():
        choices, repeats = tuple(entry.get("choices", ())), entry.get("repeats", False)
        limits, members = entry.get("range", {}), entry.get("members", {})
        found = FlagSpec(name, entry["nargs"], entry["type"], choices, repeats, entry.get("default"), limits, members)
        out |= dict.fromkeys(entry.get("spellings", [f"--{name}"]), found)
    return out


@functools.cache
def _spellings() -> list[str]:
    return sorted(_specs())


def spec(flag: str) -> FlagSpec | None:
    """Return the flag of an exact spelling (`-tp`, `--no-enable-lora`), None for an unknown one."""
    return _specs().get(flag)


def known(flag: str) -> FlagSpec:
    """Return the flag of an exact spelling.

    Raises:
        KeyError: vLLM has no such flag.
    """
    return _specs()[flag]


def completions(prefix: str) -> list[str]:
    """Return the spellings that begin with `prefix`, in order."""
    spellings = _spellings()
    start = end = bisect_left(spellings, prefix)
    while end < len(spellings) and spellings[end].startswith(prefix):
        end += 1
    return spellings[start:end]


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
    found = _guesses().closest(name)
    return None if not found else (f"--{found}", difflib.SequenceMatcher(None, found, name).ratio() >= _SURE)


@functools.cache
def _guesses() -> Guesses:
    return Guesses(_table()["flags"], NEAR)
