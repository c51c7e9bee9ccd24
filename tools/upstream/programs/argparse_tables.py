"""The flags of a parser of argparse, as a table: for the programs beside this file."""

from __future__ import annotations

import argparse
import enum
import json
from typing import Any  # argparse actions and accelerate's namespaces are untyped at their source

Entry = dict[str, Any]
Entries = dict[str, Entry]

# `bool` as an argparse type takes every word for true: it must not look like TRL's own true-or-false.
KINDS = {"string_to_bool": "bool", "bool": "truthy", "NoneType": "str", "<lambda>": "str"}


def derived(name: str) -> list[str]:
    """The spellings that both parsers accept for every flag: underscores, and dashes instead of underscores."""
    return sorted({f"--{name}", f"--{name.replace('_', '-')}"})


def plain(value: object) -> object:
    """`value` as JSON can hold it, else None."""
    value = value.value if isinstance(value, enum.Enum) else value
    try:
        json.dumps(value)
    except TypeError:
        return None
    return value


def kind(action: argparse.Action) -> str:
    """Name of the conversion that a value goes through; `|none` where the word none is accepted too."""
    if action.nargs == 0:
        return "flag"
    name = getattr(action.type, "__name__", type(action.type).__name__)
    name = KINDS.get(name, name)
    return f"{name}|none" if "_accept_none" in getattr(action.type, "__qualname__", "") else name


def entry(action: argparse.Action) -> tuple[str, Entry]:
    """One flag: its name and what a parser has to know to walk past it. Falsy facts are left out."""
    name = next(s for s in action.option_strings if s.startswith("--")).removeprefix("--")
    found: Entry = {"nargs": 1 if action.nargs is None else action.nargs, "type": kind(action)}
    if action.dest != name:
        found["dest"] = action.dest
    if sorted(action.option_strings) != derived(name):
        found["spellings"] = sorted(action.option_strings)
    if action.choices is not None:
        found["choices"] = [str(choice) for choice in action.choices]
    if action.const not in (None, True):
        found["bare"] = plain(action.const)
    if action.required:
        found["required"] = True
    default = None if action.default is argparse.SUPPRESS else plain(action.default)
    if default is not None and action.nargs != 0:
        found["default"] = default
    return name, found


def entries(parser: argparse.ArgumentParser) -> Entries:
    """Every flag of one parser."""
    return dict(entry(action) for action in parser._actions if action.option_strings)


def options(parser: argparse.ArgumentParser) -> Entry:
    """The options of a launcher as `muster.strategies.launches.options.table` reads them, choices and defaults beside.

    Those with a value come first.
    """
    actions = sorted((action for action in parser._actions if action.option_strings), key=lambda each: each.nargs == 0)
    found: Entry = {"options": " ".join(map(option, actions))}
    if not parser.allow_abbrev:
        found["rules"] = {"abbreviated": False}
    named = {option(action).strip(":+").rpartition("=")[2]: entry(action)[1] for action in actions}
    for fact in ("choices", "default"):
        found[fact] = {name: each[fact] for name, each in named.items() if each.get(fact) not in (None, "", [])}
    return found


def option(action: argparse.Action) -> str:
    """One option: other spellings, its name, and a mark for each value."""
    spellings = dict.fromkeys(each.lstrip("-").replace("_", "-") for each in action.option_strings)
    name = max(spellings, key=len)
    others = ",".join(each for each in spellings if each != name)
    mark = (
        ""
        if action.nargs == 0
        else ":+"
        if isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*")
        else ":"
    )
    return f"{others}={name}{mark}" if others else f"{name}{mark}"
