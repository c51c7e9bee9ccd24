"""`muster strategies`: which frameworks this installation knows, and who brought the knowledge."""

from __future__ import annotations

import argparse
import sys
from typing import TypedDict

from strategies.plugins.registry import Registered
from webhook.cli import cases, problems, tables
from webhook.kubeyaml import jsons

__all__ = ["run"]


class _Entry(TypedDict):
    framework: str
    version: str
    origin: str
    description: str


def run(args: argparse.Namespace) -> int:
    """List the registered strategies; see `main` for the arguments."""
    entries = [_entry(each) for each in cases.policy(None).registry]
    if args.output == "json":
        print(jsons.dump(entries))
    else:
        rows = [(each["framework"], each["version"], each["origin"], each["description"]) for each in entries]
        headers = ("FRAMEWORK", "VERSION", "ORIGIN", "WHAT IT DOES")
        for line in tables.layout(headers, rows, tables.terminal_width()):
            print(line)
    return problems.CLEAN


def _entry(registered: Registered) -> _Entry:
    chosen = registered.strategy
    return {
        "framework": chosen.framework,
        "version": chosen.version,
        "origin": registered.origin,
        "description": _description(chosen),
    }


def _description(chosen: object) -> str:
    """Return the first line of the docstring that says most: the module's, else the class's."""
    module = sys.modules.get(type(chosen).__module__)
    text = (getattr(module, "__doc__", None) or type(chosen).__doc__ or "").strip()
    return problems.one_line(text.partition("\n")[0])
