"""`muster strategies`: lists the supported frameworks and the packages of their strategies, or begins one."""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from pathlib import Path
from typing import TypedDict

from muster.strategies.plugins.registry import Registered
from muster.webhook.cli import cases, packages, problems, terminal
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import jsons

__all__ = ["run"]


class _Entry(TypedDict):
    framework: str
    version: str
    origin: str
    description: str


def run(args: argparse.Namespace) -> int:
    """List the registered strategies, or write a package; see `commandline.json` for the arguments."""
    return _write(args) if args.action == "new" else _list(args)


def _list(args: argparse.Namespace) -> int:
    entries = [_entry(each) for each in cases.policy(None).registry]
    if args.output == "json":
        print(jsons.dump(problems.versioned("strategies", entries)))
    else:
        rows = [(each["framework"], each["version"], each["origin"], each["description"]) for each in entries]
        headers = ("FRAMEWORK", "VERSION", "ORIGIN", "WHAT IT DOES")
        for line in terminal.layout(headers, rows, terminal.terminal_width()):
            print(line)
    return problems.CLEAN


def _write(args: argparse.Namespace) -> int:
    framework: str = args.framework
    served = cases.policy(None).registry.get(framework)
    if served.strategy.framework == framework:
        raise CommandError(f"{framework!r} is served by {served} already; choose the name of another framework")
    folder: Path = args.folder or Path(f"muster-strategy-{framework}")
    texts = packages.files(framework, _version())
    try:
        folder.mkdir(parents=True)
        for path, text in texts.items():
            file = folder / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise CommandError(f"{folder}: exists already and was not changed; give another one with --folder") from error
    except OSError as error:
        raise CommandError(f"{folder}: cannot be written: {error.strerror or error}") from error
    problems.warn([f"muster: wrote {folder}; its README.md says how to test and to install it"])
    return problems.CLEAN


def _version() -> str:
    try:
        return metadata.version("muster-admission")
    except metadata.PackageNotFoundError:
        return "latest"


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
