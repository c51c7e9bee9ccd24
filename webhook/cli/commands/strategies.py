"""`muster strategies`: lists the supported frameworks and the packages of their strategies, or begins one.

A package has a strategy, tests, an image and values of the chart. Each file of `package_templates` has the blanks of
`string.Template`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path
from string import Template
from typing import TypedDict

from muster.strategies.plugins.registry import Registered
from muster.webhook import cli
from muster.webhook.cli import cases, problems, terminal
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import jsons

__all__ = ["FILES", "files", "run"]

FILES: Mapping[str, str] = {
    "readme.part": "README.md",
    "project.part": "pyproject.toml",
    "face.part": "$package/__init__.py",
    "strategy.part": "$package/strategy.py",
    "tests.part": "tests/test_strategy.py",
    "image.part": "Dockerfile",
    "ignored.part": ".dockerignore",
    "values.part": "values.yaml",
}
"""Each template, and the path of the file that it becomes."""


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
    texts = files(framework, _version())
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


def files(framework: str, version: str) -> dict[str, str]:
    """Return the texts of a package by their paths.

    Args:
        framework: value of the label that selects the strategy: lower-case letters, digits and dashes.
        version: the version of Muster, for the image that the package is added to.
    """
    blanks = {
        "framework": framework,
        "distribution": f"muster-strategy-{framework}",
        "package": f"muster_strategy_{framework.replace('-', '_')}",
        "strategy": f"{''.join(map(str.capitalize, framework.split('-')))}Strategy",
        "version": version,
    }
    folder = resources.files(cli).joinpath("package_templates")
    texts = {path: folder.joinpath(name).read_text(encoding="utf-8") for name, path in FILES.items()}
    return {Template(path).substitute(blanks): Template(text).substitute(blanks) for path, text in texts.items()}


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
