"""`muster strategies`: lists the supported frameworks and the packages of their strategies."""

from __future__ import annotations

import argparse
import sys
from typing import TypedDict

from strategies.plugins.registry import Registered
from webhook.cli import cases, envelopes, problems, tables
from webhook.kubeyaml import jsons

__all__ = ["run"]


class _Entry(TypedDict):
    framework: str
    version: str
    origin: str
    description: str


def run(args: argparse.Namespace) -> int:
    """List the registered strategies; see `arguments` for the arguments."""
    entries = [_entry(each) for each in cases.policy(None).registry]
    if args.output == "json":
        print(jsons.dump(envelopes.listed("strategies", entries)))
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
    """Return the first line of a docstring: of the module, otherwise of the class."""
    module = sys.modules.get(type(chosen).__module__)
    text = (getattr(module, "__doc__", None) or type(chosen).__doc__ or "").strip()
    return problems.one_line(text.partition("\n")[0])
