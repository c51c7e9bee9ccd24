"""The methods, flags and presets of the supported TRL, without importing TRL.

tests/contract/trl/generate.py prints `flags.json` from TRL's and accelerate's own parsers. `parsing` uses it to read
command lines.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypedDict, cast

from muster.strategies import upstream
from muster.strategies.frameworks.flag_tables import NEAR, Entry, Flags, FlagSpec
from muster.strategies.launches.guesses import Guesses

__all__ = [
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

_LONGEST_GUESS = 64


class _Table(TypedDict):
    trl: str
    methods_passthrough: list[str]
    common: dict[str, Entry]
    methods: dict[str, dict[str, Entry]]
    programs: dict[str, dict[str, Entry]]
    launcher: dict[str, Entry]
    presets: dict[str, dict[str, object]]
    presets_env: dict[str, dict[str, str]]


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
    return Guesses(script(method).names | _launcher().names | {"config"}, NEAR)
