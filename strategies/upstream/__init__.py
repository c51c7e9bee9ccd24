"""Upstream: what is known of each version of each upstream package, as data: `<package>/<version>/`.

A folder of a version holds tables that are generated from the package itself (`flags.json`, …) and `rows.toml`, rules
with their proofs, whose form `muster.strategies.rules` explains. `<package>/shipped` names the version that our images
have; nothing in Python names one. A file is read once in a process, and not before it is needed.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from importlib.resources.abc import Traversable

__all__ = ["data", "shipped", "text", "versions"]


def shipped(package: str) -> str:
    """Return the version of `package` that our images have, and that is meant where nobody names one."""
    return _folder(package).joinpath("shipped").read_text(encoding="utf-8").strip()


def versions(package: str) -> tuple[str, ...]:
    """Return the versions of `package` of which something is known, oldest first."""
    found = (each.name for each in _folder(package).iterdir() if each.is_dir() and each.name[:1].isdecimal())
    return tuple(sorted(found, key=lambda version: [int(part) for part in version.split(".")]))


@functools.cache
def data(package: str, name: str, version: str = "") -> object:
    """Return a generated table, `<name>.json`, as JSON; nobody may change it.

    Raises:
        FileNotFoundError: this version has no such table.
    """
    return json.loads(text(package, f"{name}.json", version))


def text(package: str, name: str, version: str = "") -> str:
    """Return a file of a version.

    Raises:
        FileNotFoundError: nothing is known of this version, or it has no such file.
    """
    return _folder(package).joinpath(version or shipped(package), name).read_text(encoding="utf-8")


def _folder(package: str) -> Traversable:
    return resources.files(__package__).joinpath(package)
