"""Wrappers: programs that start the program behind them, such as `uv run`, `env` and `tini --`.

Each is peeled with its own options, so that the first word behind them is the program and never the value of an option.
An option that is not known here may take a value or not; then what the wrapper starts is not read. `wrappers.json` has
the options, from `--help` of coreutils, util-linux, strace and uv, and the manual pages or documentation of the others.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

from msgspec import Struct, field
from msgspec.structs import replace

from muster.strategies.launches import launches, quotes
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.options import Options, Table, split, table

__all__ = ["Peeled", "Wrapper", "known", "peel"]

_NICENESS = r"-\d+"
_ASSIGNMENT = r"([A-Za-z_][A-Za-z0-9_]*)=(.*)"


class Wrapper(Struct, frozen=True):
    """How one wrapper is called.

    Attributes:
        options: its options.
        under: its subcommand, one of these; empty for none.
        before: its options in front of the subcommand.
        skips: words between its options and the program: the duration of `timeout`.
        needs: the word that must stand before the program: `--`.
        assigns: whether NAME=value may stand before the program.
        python: `all` where what it starts is a file or a module of Python, `files` where a word that ends with .py is.
        text: full name of an option whose value is a text for a shell.
        text_only: whether without that option it starts no program.
        keeps: full name of the option without which it takes variables away; "" where it keeps them.
        clears: full name of the switch with which it takes variables away, as a word `-` does; "" where none does.
        skipped: what the words between its options and the program match, "" where that is not known; what they are.
        detaches: full names of switches with which it does not wait for what it starts; empty where it always waits.
        prefixed: whether the program may have a prefix `NAME:`.
        joined: whether its words are one text for a shell.
    """

    options: Table
    under: tuple[str, ...] = ()
    before: Table = field(default_factory=lambda: table(""))
    skips: int = 0
    needs: str = ""
    assigns: bool = False
    python: str = ""
    text: str = ""
    text_only: bool = False
    keeps: str = ""
    clears: str = ""
    skipped: tuple[str, str] = ("", "")
    detaches: tuple[str, ...] = ()
    prefixed: bool = False
    joined: bool = False


class _Data(TypedDict):
    programs: Mapping[str, Mapping[str, object]]
    modules: Mapping[str, str | Mapping[str, object]]
    scripts: Sequence[str]


@functools.cache
def _data() -> _Data:
    text = Path(__file__).with_name("wrappers.json").read_text(encoding="utf-8")
    return cast("_Data", json.loads(text))


@functools.cache
def _programs() -> Mapping[str, Mapping[str, object]]:
    return {name: entry for names, entry in _data()["programs"].items() for name in names.split()}


@functools.cache
def _program_wrapper(name: str) -> Wrapper | None:
    entry = _programs().get(name)
    return _made(entry) if entry is not None else None


@functools.cache
def _module_wrapper(name: str) -> Wrapper | None:
    entry = _data()["modules"].get(name)
    return _program_wrapper(entry) if isinstance(entry, str) else _made(entry) if entry is not None else None


def _made(entry: Mapping[str, object]) -> Wrapper:
    """Return a wrapper as `wrappers.json` has it; options are a text of `options.table`, rules of it stand beside."""
    found: dict[str, object] = {name: tuple(each) if isinstance(each, list) else each for name, each in entry.items()}
    for name in ("options", "before"):
        found[name] = table(str(entry.get(name, "")), **cast("dict[str, bool]", found.pop(f"{name}_rules", {})))
    return Wrapper(**found)  # type: ignore[arg-type]  # each member of the file is one of its attributes


class Peeled(Struct, frozen=True):
    """What a wrapper starts.

    Attributes:
        name: the wrapper, as it is named to users: `uv run`.
        words: the command line behind it; empty where it starts nothing.
        text: a text for a shell that it starts instead.
        env: variables that it sets; "" for one that it takes away.
        cleared: whether it takes away all other variables.
        unread: why the command line behind it could not be found, as a clause; "" where it was.
        caveat: what else it may change, as a clause.
        fault: why it starts nothing, as a clause; "" where it does.
        detached: whether it ends before what it starts.
    """

    name: str
    words: tuple[str, ...] = ()
    text: str | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    cleared: bool = False
    unread: str = ""
    caveat: str = ""
    fault: str = ""
    detached: bool = False


def known(word: str) -> bool:
    """Tell whether a program is a wrapper."""
    return launches.program(word) in _programs() or launches.program(word) == "busybox"


def peel(words: Sequence[str], launch: Launch) -> Peeled | None:
    """Take the outermost wrapper off a command line, of which `launch` is the bare launch; None where there is none."""
    name = launches.program(words[0]) if words else ""
    if name == "busybox":
        return Peeled(name, tuple(words[1:]))
    if name == "runuser" and not any(word.startswith(("-u", "--user")) for word in words):
        name = "su"  # its other form
    wrapper = _program_wrapper(name)
    if wrapper is not None:
        return _open(name, wrapper, words[1:], ("python",))
    if name.startswith("python") and launch.launcher is Launcher.PYTHON:
        module = _module_wrapper(launch.target) if launch.module else None
        if module is not None:
            return _open(launch.target, module, launch.rest, launch.head)
        if not launch.module and launches.program(launch.target) in _data()["scripts"]:
            return Peeled(name, (launch.target, *launch.rest))
    return None


def _open(name: str, wrapper: Wrapper, words: Sequence[str], interpreter: tuple[str, ...]) -> Peeled | None:
    if wrapper.under:
        found = split(wrapper.before, words)
        if name == "uv" and found.rest[:2] == ("tool", "run"):
            return _open("uv tool run", _made(_programs()["uvx"]), found.rest[2:], interpreter)
        if not found.rest or found.rest[0] not in wrapper.under:
            return None
        name, words = f"{name} {found.rest[0]}", found.rest[1:]
    return _after(name, wrapper, words) if wrapper.needs else _behind(name, wrapper, words, interpreter)


def _behind(name: str, wrapper: Wrapper, words: Sequence[str], interpreter: tuple[str, ...]) -> Peeled:
    found = split(wrapper.options, words)
    lost = next((word for word in found.unknown if not (word.startswith("--") and "=" in word)), None)
    if lost is not None:
        return Peeled(name, unread=f"{name} has an option that Muster does not know: {quotes.flag(lost)}")
    cleared = bool({"ignore_environment", wrapper.clears} & set(found.values)) or bool(wrapper.clears and "-" in words)
    cleared = cleared or bool(wrapper.keeps and wrapper.keeps not in found.values)
    detached = not found.values.keys().isdisjoint(wrapper.detaches)
    peeled = Peeled(name, cleared=cleared, caveat=_caveat(name, wrapper, found), detached=detached)
    if wrapper.text and wrapper.text in found.values:
        return replace(peeled, text=found.values[wrapper.text])
    if wrapper.text_only:
        return replace(peeled, unread=f"{name} has no command that Muster can read")
    return _program(peeled, wrapper, found, interpreter)


def _program(peeled: Peeled, wrapper: Wrapper, found: Options, interpreter: tuple[str, ...]) -> Peeled:
    """Find the program behind a wrapper's options."""
    rest, env = list(found.rest), dict.fromkeys(found.every.get("unset", ()), "")
    if "split_string" in found.values:
        text = found.values["split_string"]
        pieces = None if "$" in text or "\\" in text else _pieces(text)
        if pieces is None:
            return replace(peeled, unread="the text of env -S is not one that Muster reads")
        rest = [*pieces, *rest]
        if pieces and pieces[0].startswith("-"):
            return replace(peeled, words=("env", *rest), env=env)
    if peeled.name == "nice" and rest and re.fullmatch(_NICENESS, rest[0]):
        del rest[0]
    if rest[:1] == ["-"] and peeled.name == "env":
        peeled, rest = replace(peeled, cleared=True), rest[1:]
    while wrapper.assigns and rest and (setting := re.fullmatch(_ASSIGNMENT, rest[0], flags=re.DOTALL)):
        env[setting[1]] = setting[2]
        del rest[0]
    fault = _fault(peeled.name, wrapper, rest)
    if fault or wrapper.joined:
        return replace(peeled, fault=fault, unread=fault, text=None if fault else " ".join(rest))
    rest = rest[wrapper.skips :]
    if peeled.name == "flock" and rest[:1] in (["-c"], ["--command"]):
        return replace(peeled, text=rest[1] if len(rest) > 1 else "")
    if wrapper.prefixed and rest:
        rest[0] = rest[0].rpartition(":")[2]
    return replace(peeled, words=_interpreted(wrapper, found, rest, interpreter), env=env)


def _fault(name: str, wrapper: Wrapper, rest: Sequence[str]) -> str:
    """Return why a wrapper starts nothing, by the word that stands where it needs another."""
    form, what = wrapper.skipped
    if not form or not rest or "$" in rest[0] or re.fullmatch(form, rest[0]):
        return ""
    return f"{name} has {quotes.program(rest[0])} where {what} stands, so it starts nothing"


def _interpreted(wrapper: Wrapper, found: Options, rest: list[str], interpreter: tuple[str, ...]) -> tuple[str, ...]:
    """Put Python in front of what a wrapper gives to Python itself."""
    if not wrapper.python or not rest:
        return tuple(rest)
    if {"module", "m"} & set(found.values):
        return (*interpreter, "-m", *rest)
    if wrapper.python == "all":
        gap = rest.index("---") if "---" in rest else -1  # scalene's end of its own arguments
        return (*interpreter, *rest) if gap < 0 else (*interpreter, *rest[:gap], *rest[gap + 1 :])
    script = rest[0] == "-" or rest[0].endswith((".py", ".pyw")) or "script" in found.values
    return (*interpreter, *rest) if script else tuple(rest)


def _after(name: str, wrapper: Wrapper, words: Sequence[str]) -> Peeled:
    """Find the program behind the word that such a wrapper needs."""
    if wrapper.needs in words:
        return Peeled(name, tuple(words[words.index(wrapper.needs) + 1 :]))
    found = split(wrapper.options, words)
    if wrapper.needs == "--args" or found.unknown or not found.rest:
        return Peeled(name, unread=f"{name} has no {wrapper.needs} before the program")
    return Peeled(name, found.rest)


def _caveat(name: str, wrapper: Wrapper, found: Options) -> str:
    taken = wrapper.keeps and wrapper.keeps not in found.values
    return f"{name} may take variables of the container away" if taken else ""


def _pieces(text: str) -> list[str] | None:
    try:
        return shlex.split(text)
    except ValueError:
        return None
