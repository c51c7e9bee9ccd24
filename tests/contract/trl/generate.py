"""Prints `flags.json` of strategies/upstream/trl from the installed TRL: run by a python that has trl, never imported.

The table is read out of the parsers that `trl <method>`, the training scripts and `accelerate launch` build themselves,
so an upgrade of TRL shows up as a diff of one line per flag instead of as a job that is refused or let through wrongly.

    $MUSTER_TRL_PYTHON tests/contract/trl/generate.py > strategies/upstream/trl/<version>/flags.json
"""

from __future__ import annotations

import argparse
import enum
import importlib
import json
import os
import sys
from collections.abc import Iterable
from importlib import metadata, resources
from pathlib import Path
from typing import Any  # argparse actions and accelerate's namespaces are untyped at their source

Entry = dict[str, Any]
Entries = dict[str, Entry]

DISTRIBUTIONS = ("trl", "transformers", "accelerate")
# `bool` as an argparse type takes every word for true: it must not look like TRL's own true-or-false.
KINDS = {"string_to_bool": "bool", "bool": "truthy", "NoneType": "str", "<lambda>": "str"}

# Programs of our images that TRL's parser reads, and the module that makes it.
PROGRAMS = {"muster_rollouts.train": "muster_rollouts.arguments"}
IMAGES = Path(__file__).parents[3] / "images"

# Threads, search path and rendezvous depend on the machines, not on the preset.
NOT_OF_PRESETS = {"MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONPATH"}


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


def commands() -> tuple[list[str], list[str]]:
    """The commands of `trl` that train, and the others."""
    training = importlib.import_module("trl.cli.commands.training").TrainingCommand
    every = importlib.import_module("trl.cli.commands").get_commands()
    methods = sorted(command.name for command in every if isinstance(command, training))
    return methods, sorted(command.name for command in every if command.name not in methods)


def programs() -> dict[str, Entries]:
    """The flags of each program of ours."""
    sys.path.insert(0, str(IMAGES / "rollouts"))
    return {program: entries(importlib.import_module(module).make_parser()) for program, module in PROGRAMS.items()}


def abbreviated(parser: argparse.ArgumentParser) -> bool:
    """Whether the parser completes `--learning_r`."""
    return parser.allow_abbrev


def launcher() -> Entries:
    """What `accelerate launch` takes from the command line of `trl <method>`, and TRL's own flag beside it."""
    found = entries(importlib.import_module("accelerate.commands.launch").launch_command_parser())
    # trl/cli/accelerate_config.py looks for this exact token, before any parser.
    return found | {"accelerate_config": {"nargs": 1, "type": "str", "spellings": ["--accelerate_config"]}}


def presets() -> dict[str, Entry]:
    """The accelerate configurations that TRL carries, by the name that `--accelerate_config` takes."""
    yaml = importlib.import_module("yaml")
    folder = resources.files("trl.accelerate_configs")
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    return {file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text()) for file in files}


def environment(*flags: str) -> dict[str, str]:
    """The environment that `accelerate launch FLAGS` gives to its workers, computed by accelerate itself."""
    launch = importlib.import_module("accelerate.commands.launch")
    launch.default_config_file = os.devnull
    args = launch.launch_command_parser().parse_args([*flags, "--main_process_port", "0", "script.py"])
    args, defaults, from_config = launch._validate_launch_command(args)
    if args.use_deepspeed:
        fields = [*defaults.deepspeed_config, *(["mixed_precision"] if from_config else [])]
        args.deepspeed_fields_from_accelerate_config = ",".join(fields)
        return dict(launch.prepare_deepspeed_cmd_env(args)[1])
    if args.use_fsdp or args.multi_gpu:
        return dict(launch.prepare_multi_gpu_env(args))
    return dict(launch.prepare_simple_launcher_cmd_env(args)[1])


def presets_environment(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """What each preset adds to the environment of a launch without one: all that it does to the training itself."""
    without = environment("--num_processes", "1")
    folder = resources.files("trl.accelerate_configs")
    found = {name: environment("--config_file", str(folder.joinpath(f"{name}.yaml"))) for name in names}
    return {
        name: {k: v for k, v in env.items() if k not in NOT_OF_PRESETS and without.get(k) != v}
        for name, env in found.items()
    }


def split(methods: dict[str, Entries]) -> tuple[Entries, dict[str, Entries]]:
    """Flags that mean the same in every method, and what is left for each."""
    first, *others = methods.values()
    common = {name: found for name, found in first.items() if all(other.get(name) == found for other in others)}
    return common, {m: {n: e for n, e in found.items() if n not in common} for m, found in methods.items()}


def table() -> Entry:
    """The whole table."""
    methods, others = commands()
    parsers = {method: importlib.import_module(f"trl.scripts.{method}").make_parser() for method in methods}
    common, own = split({method: entries(parser) for method, parser in parsers.items()})
    configs = presets()
    return {
        **{name: metadata.version(name) for name in DISTRIBUTIONS},
        "allow_abbrev": all(abbreviated(parser) for parser in parsers.values()),
        "methods_passthrough": others,
        "common": common,
        "methods": own,
        "programs": programs(),
        "launcher": launcher(),
        "presets": configs,
        "presets_env": presets_environment(configs),
    }


def lines(name: str, value: object, depth: int, indent: str = " ") -> str:
    """One line per entry, sorted, down to `depth` levels of objects."""
    key = f"{indent}{json.dumps(name)}: "
    if depth == 0 or not isinstance(value, dict):
        return key + json.dumps(value, sort_keys=True, ensure_ascii=True)
    inner = ",\n".join(lines(each, value[each], depth - 1, indent + " ") for each in sorted(value))
    return f"{key}{{\n{inner}\n{indent}}}"


DEPTHS = {"common": 1, "launcher": 1, "methods": 2, "programs": 2, "presets": 2, "presets_env": 2}


def dump(found: Entry) -> str:
    """The file's text."""
    return "{\n" + ",\n".join(lines(name, value, DEPTHS.get(name, 0)) for name, value in found.items()) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(dump(table()))
