"""The methods, flags and presets of the supported TRL, without importing TRL.

tests/contract/trl/generate.py prints `flags.json` from TRL's and accelerate's own parsers. `parsing` uses it to read
command lines.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict, cast

from msgspec import Struct

from muster.strategies import upstream
from muster.strategies.launches.guesses import Guesses
from muster.strategies.rules import Value

__all__ = [
    "FlagSpec",
    "Flags",
    "Nargs",
    "closest",
    "launcher_spec",
    "methods",
    "passthrough",
    "preset_environment",
    "presets",
    "programs",
    "script",
    "spec",
    "version",
]

Nargs: TypeAlias = Literal[0, 1, "?", "+"]

_LONGEST_GUESS = 64
_NEAR = 0.75


class _Entry(TypedDict, total=False):
    nargs: Nargs
    type: str
    dest: str
    spellings: list[str]
    choices: list[str]
    bare: bool
    default: Value


class _Table(TypedDict):
    trl: str
    methods_passthrough: list[str]
    common: dict[str, _Entry]
    methods: dict[str, dict[str, _Entry]]
    programs: dict[str, dict[str, _Entry]]
    launcher: dict[str, _Entry]
    presets: dict[str, dict[str, object]]
    presets_env: dict[str, dict[str, str]]


class FlagSpec(Struct, frozen=True):
    """One flag.

    Attributes:
        name: the key in `parsing.ParsedArgs.values`; of `--no-log-on-each-node` it is `log_on_each_node`.
        nargs: how many values follow: none, exactly one, at most one, one or more.
        kind: conversion of a value: `bool`, `int`, `float`, `str`, with `|none` where the word none is allowed too;
            other kinds (`dict`, `DebugOption`) are TRL's own and not checked here.
        choices: the allowed values; empty for any.
        default: the value without the flag, None where it is None or JSON cannot hold it.
        bare: the value of the flag when no value follows it.
    """

    name: str
    nargs: Nargs
    kind: str
    choices: tuple[str, ...] = ()
    default: Value = None
    bare: bool = True


class Flags:
    """The flags of one parser.

    Attributes:
        names: names of the flags, as in the table.
        specs: the flags by every spelling.
        spellings: all spellings, sorted, to complete abbreviations.
    """

    __slots__ = ("names", "specs", "spellings")

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self.names = frozenset(entries)
        self.specs: dict[str, FlagSpec] = {}
        for name, entry in entries.items():
            found = FlagSpec(
                name=entry.get("dest", name),
                nargs=entry["nargs"],
                kind=entry["type"],
                choices=tuple(entry.get("choices", ())),
                default=entry.get("default"),
                bare=entry.get("bare", True),
            )
            derived = [f"--{name}", f"--{name.replace('_', '-')}"]
            self.specs |= dict.fromkeys(entry.get("spellings", derived), found)
        self.spellings = sorted(self.specs)

    def completions(self, prefix: str) -> list[str]:
        """Return the spellings that begin with `prefix`."""
        start = bisect_left(self.spellings, prefix)
        end = start
        while end < len(self.spellings) and self.spellings[end].startswith(prefix):
            end += 1
        return self.spellings[start:end]


def _table() -> _Table:
    return cast("_Table", upstream.data("trl", "flags"))


@functools.cache
def script(method: str) -> Flags:
    """Return the flags of the script of `method`, or of a program of `programs`.

    Raises:
        ValueError: TRL has no such training method, and our images no such program.
    """
    table = _table()
    if method in table["programs"]:
        return Flags(table["programs"][method])
    if method not in table["methods"]:
        raise ValueError(f"trl has no training method {method!r}; its methods are {', '.join(sorted(methods()))}")
    return Flags(table["common"] | table["methods"][method])


@functools.cache
def _launcher() -> Flags:
    return Flags(_table()["launcher"])


@functools.cache
def methods() -> frozenset[str]:
    """Return the commands of `trl` that train; each is the module `trl.scripts.<method>`."""
    return frozenset(_table()["methods"])


@functools.cache
def programs() -> frozenset[str]:
    """Return the modules of our images that train by TRL and are no command of it."""
    return frozenset(_table()["programs"])


@functools.cache
def passthrough() -> frozenset[str]:
    """Return the commands of `trl` that do not train."""
    return frozenset(_table()["methods_passthrough"])


def presets() -> Mapping[str, Mapping[str, object]]:
    """Return the accelerate configurations packaged in TRL, by the name that `--accelerate_config` takes."""
    return _table()["presets"]


def preset_environment(name: str) -> Mapping[str, str]:
    """Return the env that preset `name` gives the workers: all that it does beside choosing processes and endpoint.

    Raises:
        KeyError: TRL has no such preset.
    """
    return _table()["presets_env"][name]


def version() -> str:
    """Return the version of TRL that the table was printed from."""
    return _table()["trl"]


def spec(method: str, flag: str) -> FlagSpec | None:
    """Return the flag that the script of `method` has for `flag`, with or without `=value`; None for an unknown one.

    Raises:
        ValueError: TRL has no such training method.
    """
    return script(method).specs.get(flag.partition("=")[0])


def launcher_spec(flag: str) -> FlagSpec | None:
    """Return the flag of `accelerate launch`, or `--accelerate_config`, which TRL reads only with a space after it."""
    name, equals, _ = flag.partition("=")
    return None if equals and name == "--accelerate_config" else _launcher().specs.get(name)


def closest(method: str, flag: str) -> str | None:
    """Return the flag of `method` or of the launcher that an unknown `flag` probably means, or None."""
    name = flag.partition("=")[0].lstrip("-").replace("-", "_")[:_LONGEST_GUESS]
    found = _guesses(method).closest(name)
    return f"--{found}" if found else None


@functools.cache
def _guesses(method: str) -> Guesses:
    return Guesses(script(method).names | _launcher().names | {"config"}, _NEAR)
