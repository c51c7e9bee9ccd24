"""Folders: which cases there are, and what their files say."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.webhook.cli.goldens import forms
from muster.webhook.cli.goldens.forms import Fault, FaultError

__all__ = ["EXPECTED", "JOB", "OLD", "SETTINGS", "Settings", "find", "settings"]

JOB, OLD, EXPECTED, SETTINGS = "job.yaml", "old.yaml", "expected.yaml", "case.yaml"
"""The files of a case; only the first two of a JobSet or TrainJob are Kubernetes objects."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a case is decided with.

    Attributes:
        namespace: of objects that name none.
        config: the service's configuration file.
        runtimes: files and folders, instead of the runtimes that come with Muster.
        objects: files and folders with further objects of the cluster.
    """

    namespace: str = "default"
    config: Path | None = None
    runtimes: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


def find(roots: Iterable[Path]) -> list[Path]:
    """Return the folders of all cases below the roots, each once: those with a job or an expectation.

    Raises:
        FaultError: a root is not a folder.
    """
    found: dict[Path, None] = {}
    for root in roots:
        if not root.is_dir():
            why = "is not a folder; name the folder of a case, or one with cases in it" if root.exists() else ""
            raise FaultError(Fault(str(root), 0, 0, why or "does not exist"))
        inside = {path.parent for name in (JOB, EXPECTED) for path in root.rglob(name)}
        found |= dict.fromkeys(sorted(inside))
    return list(found)


def settings(case: Path, roots: Iterable[Path]) -> Settings:
    """Return the settings of a case: of its own case.yaml, then of the folders above, key by key.

    Above the root that was named, folders count as long as each has a case.yaml.

    Raises:
        FaultError: one of the files cannot be used.
    """
    out: dict[str, Any] = {}
    for folder in _above(case, list(roots)):
        path = folder / SETTINGS
        if path.is_file():
            read = forms.read(path, forms.SETTINGS)
            out = {**{key: _placed(key, value, folder) for key, value in read.items()}, **out}
    return Settings(**out)


def _above(case: Path, roots: list[Path]) -> Iterator[Path]:
    within = [root for root in roots if case == root or root in case.parents]
    root = min(within, key=lambda each: len(each.parts), default=case)
    yield case
    yield from (parent for parent in case.parents if parent == root or root in parent.parents)
    yield from itertools.takewhile(lambda each: (each / SETTINGS).is_file(), root.resolve().parents)


def _placed(key: str, value: Any, folder: Path) -> Any:
    """Return a setting; paths are those of the folder in which they are written."""
    if key == "namespace":
        return value
    if key == "config":
        return folder / value
    return tuple(str(folder / each) for each in value)
