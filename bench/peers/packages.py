"""How large Python packages are, as they are installed."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["names", "size"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def names(requirements: str) -> list[str]:
    """Return the names in a requirements file with a pin a line."""
    found = (_NAME.match(line) for line in requirements.splitlines())
    return [each.group() for each in found if each]


def size(packages: Iterable[str], path: Sequence[str] | None = None) -> int:
    """Return the bytes of their files, without compiled bytecode.

    Args:
        packages: names of installed distributions.
        path: folders in which they are looked for; this interpreter's by default.

    Raises:
        LookupError: one of them is not installed.
    """
    return sum(_size(name, path) for name in packages)


def _size(name: str, path: Sequence[str] | None) -> int:
    for each in importlib.metadata.distributions(name=name, path=list(sys.path if path is None else path)):
        files = (Path(file.locate()) for file in each.files or () if file.suffix != ".pyc")
        return sum(file.stat().st_size for file in files if file.is_file())
    raise LookupError(f"{name}: is not installed")
