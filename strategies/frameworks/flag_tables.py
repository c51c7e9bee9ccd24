"""Flags of a parser of upstream's, from a generated table of `strategies/upstream`, without importing upstream."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict

from msgspec import Struct

from muster.strategies.launches.guesses import Guesses
from muster.strategies.rules import Value

__all__ = ["NEAR", "Entry", "Fault", "FlagSpec", "Flags", "Nargs"]

Nargs: TypeAlias = Literal[0, 1, "?", "+"]
NEAR = 0.75
"""The least ratio of `difflib` at which a word may stand for another."""


class Entry(TypedDict, total=False):
    """One flag as a table has it; its members are those of `FlagSpec`, by the names of argparse."""

    nargs: Nargs
    type: str
    dest: str
    spellings: list[str]
    choices: list[str]
    repeats: bool
    bare: bool
    default: Value
    range: dict[str, float]
    members: dict[str, list[str]]


class FlagSpec(Struct, frozen=True):
    """One flag.

    Attributes:
        name: the key under which a value is kept: `tensor-parallel-size` of `-tp`, `log_on_each_node` of
            `--no-log-on-each-node`.
        nargs: how many values follow: none, exactly one, at most one, one or more.
        kind: conversion of a value: `bool`, `int`, `float`, `str`, `json`, `object` (JSON within braces, or a word),
            `count` (`16k`), with `|none` where the word None is allowed and `|auto` where auto is; others are functions
            of upstream's own and not checked here.
        choices: the allowed values; empty for any.
        repeats: whether each time adds a value, instead of replacing the one before.
        bare: the value of the flag when no value follows it.
        default: the value without the flag, None where it is None or JSON cannot hold it.
        limits: what the configuration asks of a number: `gt`, `ge`, `lt` or `le` and the limit.
        members: the members that its JSON may have, each with the words that it takes, none for any value; empty where
            any member is taken.
    """

    name: str
    nargs: Nargs
    kind: str
    choices: tuple[str, ...] = ()
    repeats: bool = False
    bare: bool = True
    default: Value = None
    limits: Mapping[str, float] = {}
    members: Mapping[str, list[str]] = {}


class Fault(Struct, frozen=True):
    """A word that makes the parser exit with status 2.

    Attributes:
        index: place of the word in the arguments.
        token: the word.
        reason: what is wrong; a predicate whose subject is the word.
    """

    index: int
    token: str
    reason: str


class Flags:
    """The flags of one parser.

    Attributes:
        names: names of the flags, as in the table.
        specs: the flags by every spelling.
        spellings: all spellings, sorted, to complete abbreviations.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.names = frozenset(entries)
        self.specs: dict[str, FlagSpec] = {}
        for name, entry in entries.items():
            found = FlagSpec(
                name=entry.get("dest", name),
                nargs=entry["nargs"],
                kind=entry["type"],
                choices=tuple(entry.get("choices", ())),
                repeats=entry.get("repeats", False),
                bare=entry.get("bare", True),
                default=entry.get("default"),
                limits=entry.get("range", {}),
                members=entry.get("members", {}),
            )
            derived = [f"--{name}", f"--{name.replace('_', '-')}"]
            self.specs |= dict.fromkeys(entry.get("spellings", derived), found)
        self.spellings = sorted(self.specs)

    def completions(self, prefix: str) -> list[str]:
        """Return the spellings that begin with `prefix`, in order."""
        start = end = bisect_left(self.spellings, prefix)
        while end < len(self.spellings) and self.spellings[end].startswith(prefix):
            end += 1
        return self.spellings[start:end]

    @functools.cached_property
    def guesses(self) -> Guesses:
        """The names, to guess from."""
        return Guesses(self.names, NEAR)
