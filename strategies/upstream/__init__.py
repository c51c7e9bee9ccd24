"""Upstream: what is known of each version of each upstream package, as data: `<package>/<version>/`.

A folder of a version holds tables that are generated from the package itself (`flags.json`, …) and `rows.toml`, rules
with their proofs, whose form `muster.strategies.rules` explains. `<package>/shipped` names the version that our images
have; nothing in Python names one. A file is read once in a process, and not before it is needed. `make upstream` takes
in a version (`tools/upstream`). A table that says `like` is a JSON merge patch (RFC 7386) over that of another version,
and what is written by hand holds for later versions too, until one of them has a file of its own.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

__all__ = ["data", "order", "shipped", "text", "versions"]


@functools.cache
def shipped(package: str) -> str:
    """Return the version of `package` that our images have, and that is meant where nobody names one."""
    return _folder(package).joinpath("shipped").read_text(encoding="utf-8").strip()


def versions(package: str) -> tuple[str, ...]:
    """Return the versions of `package` of which something is known, oldest first."""
    found = (each.name for each in _folder(package).iterdir() if each.is_dir() and each.name[:1].isdecimal())
    return tuple(sorted(found, key=order))


def order(version: str) -> list[int]:
    """Return the numbers of a version, by which versions are sorted."""
    return [int(part) for part in version.split(".")]


@functools.cache
def data(package: str, name: str, version: str = "") -> object:
    """Return a generated table, `<name>.json`, as JSON; nobody may change it.

    Raises:
        FileNotFoundError: this version has no such table.
    """
    found: object = json.loads(text(package, f"{name}.json", version))
    if isinstance(found, dict) and "like" in found:
        return _merged(data(package, name, found.pop("like")), found)
    return found


def _merged(base: object, patch: object) -> object:
    if not isinstance(patch, dict):
        return patch
    kept = base if isinstance(base, dict) else {}
    own = {name: _merged(kept.get(name), each) for name, each in patch.items() if each is not None}
    return {**{name: each for name, each in kept.items() if name not in patch}, **own}


def text(package: str, name: str, version: str = "") -> str:
    """Return a file of a version, or where that has none of this name, of the newest one before it.

    Raises:
        FileNotFoundError: nothing is known of this version, or none has such a file.
    """
    wanted = version or shipped(package)
    try:
        return _folder(package).joinpath(wanted, name).read_text(encoding="utf-8")
    except FileNotFoundError:
        older = [each for each in versions(package) if order(each) < order(wanted)] if wanted[:1].isdecimal() else []
        if not older:
            raise
    return text(package, name, older[-1])


def _folder(package: str) -> Path:
    return Path(__file__).with_name(package)
