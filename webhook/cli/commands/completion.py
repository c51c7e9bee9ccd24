"""`muster completion`: prints a script with which a shell completes commands, options, their values and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from muster.webhook.cli import commandline, problems

__all__ = ["run"]

_FILES = frozenset({"paths", "filename", "runtimes", "file"})


def run(args: argparse.Namespace) -> int:
    """Print the script for a shell; see `commandline.json` for the arguments."""
    parser = commandline.parser()
    for action in _actions(parser):
        if action.type is Path or action.dest in _FILES:
            vars(action)["complete"] = shtab.FILE  # how shtab is told; argparse knows no such attribute
    print(shtab.complete(parser, args.shell))
    return problems.CLEAN


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # as above
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action
