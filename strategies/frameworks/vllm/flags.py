"""The flags of the supported vLLM, without importing vLLM.

tests/contract/vllm/generate.py prints `flags.json` from the parser that vLLM builds itself, and versions.py beside it
prints `versions.json`, the flags that only other versions have. `parsing` uses both to read command lines.
"""

from __future__ import annotations

import difflib
import functools
import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, TypeAlias, TypedDict, cast

from muster.strategies.launches.guesses import Guesses

__all__ = ["FlagSpec", "Nargs", "closest", "completions", "elsewhere", "known", "spec", "structured", "version"]

Nargs: TypeAlias = Literal[0, 1, "?", "+"]

_LONGEST_GUESS = 64
_NEAR = 0.75
_SURE = 0.92
"""Flags of different versions are less alike than this, and misspelled ones more."""


class _Entry(TypedDict, total=False):
    nargs: Nargs
    type: str
    spellings: list[str]
    choices: list[str]
    repeats: bool
    range: dict[str, float]
    members: dict[str, list[str]]


class _Table(TypedDict):
    vllm: str
    allow_abbrev: bool
    flags: dict[str, _Entry]


@dataclass(frozen=True, slots=True)
class FlagSpec:
    """One flag.

    Attributes:
        name: its long name without dashes in front: `tensor-parallel-size` of `-tp`.
        nargs: how many values follow: none, exactly one, at most one, one or more.
        kind: conversion of a value: `int`, `float`, `str`, `json`, `object` (JSON within braces, or a word), `count`
            (`16k`), with `|none` where the word None is
            allowed and `|auto` where auto is; `own` is a function of vLLM's own and not checked here.
        choices: the allowed values; empty for any.
        repeats: whether each time adds a value, instead of replacing the one before.
        limits: what vLLM's configuration asks of a number: pairs of `gt`, `ge`, `lt` or `le` and the limit.
        members: the members that its JSON may have, each with the words that it takes, () for any value; empty where
            any member is taken.
    """

    name: str
    nargs: Nargs
    kind: str
    choices: tuple[str, ...] = ()
    repeats: bool = False
    limits: tuple[tuple[str, float], ...] = ()
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@functools.cache
def _table() -> _Table:
    return cast("_Table", _load("flags.json"))


def _load(name: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


@functools.cache
def _specs() -> Mapping[str, FlagSpec]:
    out: dict[str, FlagSpec] = {}
    for name, entry in _table()["flags"].items():
        choices, repeats = tuple(entry.get("choices", ())), entry.get("repeats", False)
        limits = tuple(sorted(entry.get("range", {}).items()))
        members = {member: tuple(words) for member, words in entry.get("members", {}).items()}
        found = FlagSpec(name, entry["nargs"], entry["type"], choices, repeats, limits, members)
        out |= dict.fromkeys(entry.get("spellings", [f"--{name}"]), found)
    return out


@functools.cache
def _spellings() -> list[str]:
    return sorted(_specs())


@functools.cache
def _versions() -> Mapping[str, list[str]]:
    return _load("versions.json")


def spec(flag: str) -> FlagSpec | None:
    """Return the flag of an exact spelling (`-tp`, `--no-enable-lora`), None for an unknown one."""
    return _specs().get(flag)


def known(flag: str) -> FlagSpec:
    """Return the flag of an exact spelling.

    Raises:
        KeyError: vLLM has no such flag.
    """
    return _specs()[flag]


@functools.cache
def structured() -> frozenset[str]:
    """Return the names of the flags whose JSON has members of its own."""
    return frozenset(each.name for each in _specs().values() if each.members)


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
    name = flag.removeprefix("--no-")
    return _versions().get(flag) or _versions().get(f"--{name}") or []


def closest(flag: str) -> tuple[str, bool] | None:
    """Return the flag that an unknown `flag` probably means and whether that is sure in any version, or None."""
    name = flag.lstrip("-")[:_LONGEST_GUESS]
    found = _guesses().closest(name)
    if not found:
        return None
    return f"--{found}", difflib.SequenceMatcher(None, found, name).ratio() >= _SURE


@functools.cache
def _guesses() -> Guesses:
    return Guesses(_table()["flags"], _NEAR)
