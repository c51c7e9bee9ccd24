"""Finds the manifests that come with Muster: in the checkout, or beside an installed package."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["ManifestsError", "folder", "rights"]

_CHECKOUT = Path(__file__).resolve().parents[1] / "manifests"


class ManifestsError(Exception):
    """The manifests of this version are not installed."""


def folder(name: str) -> Path:
    """Return a folder of manifests.

    Args:
        name: `base` or `runtimes`, the folders that a wheel contains (`data-files` in pyproject.toml).

    Raises:
        ManifestsError: the folder exists neither in a checkout nor beside the interpreter.
    """
    here, installed = _CHECKOUT / name, Path(sys.prefix) / "share" / "muster" / name
    for place in (here, installed):
        if place.is_dir():
            return place
    raise ManifestsError(f"no manifests are installed in {installed}; install the package muster again")


def rights(name: str) -> Path:
    """Return a file with rights that only some configurations need.

    Args:
        name: of the file, such as `rbac-controllers.yaml`.

    Raises:
        ManifestsError: there is none.
    """
    base = folder("base")
    for place in (base, base.parent / "overlays" / "production"):  # a wheel contains them in base
        if (place / name).is_file():
            return place / name
    raise ManifestsError(f"{base}: has no {name}; install the package muster again")
