"""Prints the tables of the installed vLLM as JSON: run by a python that has vllm, never imported.

The flags are read out of the parser that `vllm serve` and its module build themselves, so a new version shows up as a
line for each flag instead of as a server that is refused or let through wrongly.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import sys
import types
import typing
from importlib import metadata
from pathlib import Path
from typing import Any  # argparse actions are untyped at their source

from tools.upstream.programs import vllm_words

Entry = dict[str, Any]

# How a value is read, by the name of the function that reads it.
KINDS = {
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "object",
    "NoneType": "str",
    "human_readable_int": "count",
    "human_readable_int_or_auto": "count|auto",
}
# Configurations that EngineArgs.create_engine_config always builds of flags as they are given, but for those `CHANGED`.
CONFIGS = ("CacheConfig", "ObservabilityConfig", "ParallelConfig", "SchedulerConfig", "VllmConfig")
LIMITS = ("gt", "ge", "lt", "le")
CHANGED = ("data_parallel_rank", "data_parallel_size_local", "data_parallel_rpc_port", "elastic_ep_")
PARSERS = ("entrypoints.common.cli_args", "entrypoints.launchers.cli_args", "entrypoints.openai.cli_args")
"""Where the parser is, the newest place first."""
WRAPPERS = {"_optional_type": "|none", "_parse_type": ""}


def distribution() -> str:
    """Return vLLM's version without the build's own suffix."""
    return metadata.version("vllm").partition("+")[0]


def converter(action: argparse.Action) -> tuple[Any, str, str]:
    """The function that converts a value, its name, and `|none` where the word None is accepted too."""
    function: Any = action.type
    name, suffix = getattr(function, "__name__", type(function).__name__), ""
    while name in WRAPPERS:
        suffix += WRAPPERS[name]
        function = inspect.getclosurevars(function).nonlocals["return_type"]
        name = getattr(function, "__name__", type(function).__name__)
    return function, name, suffix


def kind(action: argparse.Action) -> str:
    """Name of the conversion that a value goes through."""
    if action.nargs == 0:
        return "flag"
    _, name, suffix = converter(action)
    return KINDS.get(name, "own" if name == "<lambda>" else name) + suffix


def members(action: argparse.Action) -> dict[str, list[str]]:
    """The members that the JSON of a configuration may have, each with its choices, [] for any value."""
    function, name, _ = converter(action)
    if name != "parse_dataclass":
        return {}
    cls = inspect.signature(function).parameters["cls"].default
    hints = typing.get_type_hints(cls, include_extras=True)
    return {each.name: choices(hints[each.name]) for each in dataclasses.fields(cls) if each.init}


def choices(hint: Any) -> list[str]:
    """The texts that a type allows, [] where it allows others too."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return [each for each in inner if isinstance(each, str)] if str in map(type, inner) else []
    if origin is typing.Annotated:
        return choices(inner[0])
    if origin in (typing.Union, types.UnionType):
        found = [choices(each) for each in inner if each is not type(None)]
        return [word for words in found for word in words] if all(found) else []
    return []


def entry(action: argparse.Action, spellings: list[str]) -> tuple[str, Entry]:
    """One flag: its name and what a parser has to know to walk past it. Falsy facts are left out."""
    name = next(each for each in spellings if each.startswith("--")).removeprefix("--")
    found: Entry = {"nargs": 1 if action.nargs is None else action.nargs, "type": kind(action)}
    if spellings != [f"--{name}"]:
        found["spellings"] = sorted(spellings)
    if action.choices is not None and found["type"] != "own":
        ordered = sorted(action.choices) if isinstance(action.choices, (set, frozenset)) else action.choices
        found["choices"] = [str(choice) for choice in ordered if choice is not None]
    if isinstance(action, argparse._AppendAction):
        found["repeats"] = True
    if found["type"].startswith("json") and (known := members(action)):
        found["members"] = known
    if type(action.default) in (str, int, float) and action.default != argparse.SUPPRESS:
        found["default"] = action.default
    return name, found


def ranges() -> dict[str, Entry]:
    """The limits of the values that those configurations take, by the name of the flag: `{"gt": 0, "le": 1}`."""
    module, out = importlib.import_module("vllm.config"), {}
    for name, field in ((n, f) for each in CONFIGS for n, f in getattr(module, each).__pydantic_fields__.items()):
        limits = {kind: getattr(each, kind) for each in field.metadata for kind in LIMITS if hasattr(each, kind)}
        if limits and not name.startswith(CHANGED):
            out[name.replace("_", "-")] = limits
    return out


def root() -> Path:
    """The folder of the package."""
    return Path(str(importlib.import_module("vllm").__file__)).parent


def table() -> Entry:
    """The whole table."""
    place = next(each for each in PARSERS if (root() / f"{each.replace('.', '/')}.py").exists())
    arguments = importlib.import_module(f"vllm.{place}")
    parser = arguments.make_arg_parser(arguments.FlexibleArgumentParser())
    # Not the action's own list, which is what the help shows: spellings that are hidden there are taken all the same.
    spelled: dict[argparse.Action, list[str]] = {}
    for spelling, action in parser._option_string_actions.items():
        spelled.setdefault(action, []).append(spelling)
    flags = dict(entry(action, spellings) for action, spellings in spelled.items())
    for name, limits in ranges().items():
        if name in flags:
            flags[name]["range"] = limits
    return {"vllm": distribution(), "allow_abbrev": parser.allow_abbrev, "flags": flags}


def known_words() -> Entry:
    """The words of some flags, and what the variables may be."""
    found = {flag: sorted(each) for flag, each in vllm_words.words(root().parent).items()}
    return {**found, "env": dict(vllm_words.variables(root().parent))}


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"flags": table(), "words": known_words()}))
