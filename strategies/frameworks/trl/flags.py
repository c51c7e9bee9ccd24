"""Which methods, flags and presets the installed TRL has, without importing TRL.

`flags.json` is printed by tests/contract/trl/generate.py out of TRL's and accelerate's own parsers. `parsing` reads
command lines by it.
"""

from __future__ import annotations

import difflib
import functools
import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeAlias, TypedDict, cast

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
    "script",
    "spec",
    "version",
]

Nargs: TypeAlias = Literal[0, 1, "?", "+"]

_LONGEST_GUESS = 64


class _Entry(TypedDict, total=False):
    nargs: Nargs
    type: str
    dest: str
    spellings: list[str]
    choices: list[str]
    bare: bool
    default: object


class _Table(TypedDict):
    trl: str
    methods_passthrough: list[str]
    common: dict[str, _Entry]
    methods: dict[str, dict[str, _Entry]]
    launcher: dict[str, _Entry]
    presets: dict[str, dict[str, object]]
    presets_env: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class FlagSpec:
    """One flag.

    Attributes:
        name: the key in `parsing.ParsedArgs.values`; of `--no-log-on-each-node` it is `log_on_each_node`.
        nargs: how many values follow: none, exactly one, at most one, one or more.
        kind: conversion of a value: `bool`, `int`, `float`, `str`, with `|none` where the word none is taken too; other
            kinds (`dict`, `DebugOption`) are TRL's own and not judged here.
        choices: the only values there are; empty for any.
        default: the value without the flag, None where it is None or JSON cannot hold it.
        bare: what the flag says when no value follows it.
    """

    name: str
    nargs: Nargs
    kind: str
    choices: tuple[str, ...] = ()
    default: object = None
    bare: bool = True


class Flags:
    """The flags of one parser.

    Attributes:
        names: as they are in the table.
        specs: by every spelling.
        spellings: in order, to complete abbreviations.
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
        """The spellings that begin so."""
        start = bisect_left(self.spellings, prefix)
        end = start
        while end < len(self.spellings) and self.spellings[end].startswith(prefix):
            end += 1
        return self.spellings[start:end]


@functools.cache
def _table() -> _Table:
    text = resources.files(__package__).joinpath("flags.json").read_text(encoding="utf-8")
    return cast("_Table", json.loads(text))


@functools.cache
def script(method: str) -> Flags:
    """The flags of the script of `method`.

    Raises:
        ValueError: there is no such training method.
    """
    table = _table()
    if method not in table["methods"]:
        raise ValueError(f"trl has no training method {method!r}; it has {', '.join(sorted(methods()))}")
    return Flags(table["common"] | table["methods"][method])


@functools.cache
def _launcher() -> Flags:
    return Flags(_table()["launcher"])


@functools.cache
def methods() -> frozenset[str]:
    """Commands of `trl` that train; each is the module `trl.scripts.<method>`."""
    return frozenset(_table()["methods"])


@functools.cache
def passthrough() -> frozenset[str]:
    """Commands of `trl` that do not train."""
    return frozenset(_table()["methods_passthrough"])


def presets() -> Mapping[str, Mapping[str, object]]:
    """Accelerate configurations packaged in TRL, by the name that `--accelerate_config` takes."""
    return _table()["presets"]


def preset_environment(name: str) -> Mapping[str, str]:
    """What preset `name` adds to the workers' environment: all it does beside choosing processes and endpoint.

    Raises:
        KeyError: TRL carries no such preset.
    """
    return _table()["presets_env"][name]


def version() -> str:
    """Version of TRL that the table was printed from."""
    return _table()["trl"]


def spec(method: str, flag: str) -> FlagSpec | None:
    """The flag of the script of `method` as spelled in `flag`, `=value` or not; None when it has none such.

    Raises:
        ValueError: there is no such training method.
    """
    return script(method).specs.get(flag.partition("=")[0])


def launcher_spec(flag: str) -> FlagSpec | None:
    """The flag of `accelerate launch`; or `--accelerate_config`, which TRL only sees with a space after it."""
    name, equals, _ = flag.partition("=")
    return None if equals and name == "--accelerate_config" else _launcher().specs.get(name)


def closest(method: str, flag: str) -> str | None:
    """The flag, of `method` or of the launcher, that an unknown `flag` was probably meant to be, or None."""
    name = flag.partition("=")[0].lstrip("-").replace("-", "_")[:_LONGEST_GUESS]
    names = sorted(script(method).names | _launcher().names | {"config"})
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return f"--{found[0]}" if found else None
