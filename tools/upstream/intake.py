"""Intake: the steps that take in a version, and what they print.

Install it, write its tables, prove the rows that hold for the version before, and run the corpus by it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from muster.strategies import upstream
from tools.upstream import table_files
from tools.upstream.table_files import Table

__all__ = ["FOLDER", "Package", "nearest", "take_in", "written"]

FOLDER = Path(upstream.__file__).resolve().parent


class Package(Protocol):
    """An upstream package."""

    @property
    def name(self) -> str:
        """Its name, and that of its folder."""

    @property
    def shared(self) -> Sequence[str]:
        """Names of its tables that are about all versions, and stand in the folder of the shipped one."""

    @property
    def mentions(self) -> str:
        """A regular expression that finds the corpus cases which it may decide."""

    def tables(self, version: str, beside: Sequence[str] = ()) -> Mapping[str, Table]:
        """Return the generated tables of a version, which is installed first; `beside` names what it needs besides."""

    def shown(self, table: Table) -> Table:
        """Return a table as its differences are printed."""

    def broken(self, version: str, beside: Sequence[str] = ()) -> Iterator[str]:
        """Yield a line for each row that does not hold for this version."""


def take_in(package: Package, version: str, beside: Sequence[str] = (), *, corpus: bool = True) -> Iterator[str]:
    """Take a version in, and yield what changed beside the nearest older one; the last line says what does not hold.

    Raises:
        FailedError, ClusterError: the version cannot be had, or its own code does not run here.
    """
    older = nearest(package.name, version)
    yield f"{package.name} {version}, beside {older}"
    yield from written(package, version, package.tables(version, beside), older)
    broken = list(package.broken(version, beside))
    yield from (f"does not hold: {line}" for line in broken)
    if corpus:
        was, now = (_ends(package, each) for each in (older, version))
        moved = [name for name in now if was[name] != now[name]]
        yield from (f"case {name}: {was[name]} -> {now[name]}" for name in moved)
        yield f"corpus: {len(now)} cases, {len(moved)} end otherwise"
    yield f"{len(broken)} rows do not hold" if broken else "every row holds"


def nearest(package: str, version: str) -> str:
    """Return the newest known version before one, else the shipped one."""
    every = [each for each in upstream.versions(package) if upstream.order(each) < upstream.order(version)]
    return every[-1] if every else upstream.shipped(package)


def written(package: Package, version: str, tables: Mapping[str, Table], older: str) -> Iterator[str]:
    """Write the tables of a version, and yield what differs from an older one."""
    shipped = upstream.shipped(package.name)
    for name, table in tables.items():
        try:
            old = cast("Table", upstream.data(package.name, name, older))
        except FileNotFoundError:
            yield f"{name}: the first of its kind"
        else:
            was, now = (_of(old, older), _of(table, version)) if name in package.shared else (old, table)
            yield from (
                f"{name}: {line}" for line in _once(table_files.changes(package.shown(was), package.shown(now)))
            )
        own = FOLDER / package.name / version
        if name in package.shared and version != shipped:
            table_files.kept(own.with_name(shipped), name, table, "")
        table_files.kept(own, name, table, "" if version == shipped else shipped)


def _once(changes: Iterable[str]) -> Iterator[str]:
    """Yield each change at the first of the places that have it: pods stand in many."""
    seen = set[str]()
    for line in changes:
        sign, place, change = f"{line} ".split(" ", 2)
        key = f"{sign}{'.'.join(place.split('.')[-2:])}{change}"
        if key not in seen:
            yield line
        seen.add(key)


def _of(table: Table, version: str) -> Table:
    """Return what a table of all versions says of one: the words that it knows."""
    found: Table = {}
    for name, each in table.items():
        if isinstance(each, dict):
            found[name] = _of(each, version)
        elif not isinstance(each, list) or version in each:
            found[name] = True if isinstance(each, list) else each
    return found


def _ends(package: Package, version: str) -> dict[str, str]:
    """Return how each corpus case ends that the package may decide, where the version is the shipped one."""
    argv = [sys.executable, "-m", "tools.upstream.corpus_ends", package.name, version, package.mentions]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
