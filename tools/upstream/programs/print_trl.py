"""Prints the tables of the installed TRL as JSON: run by a python that has trl, never imported.

The table is read out of the parsers that `trl <method>`, the training scripts and `accelerate launch` build themselves,
so a new version shows up as a line for each flag instead of as a job that is refused or let through wrongly.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterable
from importlib import metadata, resources
from pathlib import Path
from typing import Any  # accelerate is only known at run time

from tools.upstream.programs.argparse_tables import Entries, Entry, entries

DISTRIBUTIONS = ("trl", "transformers", "accelerate")

# Programs of our images that TRL's parser reads, and the module that makes it.
PROGRAMS = {"muster_rollouts.train": "muster_rollouts.arguments"}
IMAGES = Path(__file__).parents[3] / "images"

# Threads, search path and rendezvous depend on the machines, not on the preset.
NOT_OF_PRESETS = {"MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONPATH"}


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
    launch: Any = importlib.import_module("accelerate.commands.launch")
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


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"flags": table()}))
