"""Plugins: an out-of-tree strategy as a folder that a Python finds installed, in whatever version a test wants."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["installed"]


def installed(folder: Path, package: Path, entry: str, version: str = "1") -> Path:
    """Install a package of one entry point into a folder, as pip would, and return the folder.

    Args:
        folder: a folder, which is made.
        package: the package's source.
        entry: what the entry point names, `package.module:Class`.
        version: the version of the distribution.
    """
    name = package.name
    shutil.copytree(package, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(f"[muster.strategies]\n{name} = {entry}\n")
    return folder
