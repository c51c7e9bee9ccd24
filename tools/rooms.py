"""`python -m tools.rooms`: the rooms of a package, the imports between them, and the circles they form.

A room is a folder, or a module, directly below a package. An arrow is one room that imports another, however many of
its modules do. The imports are read by grimp, as import-linter reads them.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import grimp

__all__ = ["Arrows", "circle", "main", "read"]

Arrows = Mapping[tuple[str, str], int]
"""Imports between two rooms, (importer, imported), and how many there are."""


def read(package: str) -> Arrows:
    """Return the arrows between the rooms of a package of `muster`.

    Raises:
        grimp.exceptions.ModuleNotPresent: there is no such package.
    """
    graph, top = _graph(), f"muster.{package}"
    inside = {top, *graph.find_descendants(top)}
    found: Counter[tuple[str, str]] = Counter()
    for module in inside:
        for imported in graph.find_modules_directly_imported_by(module) & inside:
            arrow = (_room(module), _room(imported))
            if arrow[0] != arrow[1]:
                found[arrow] += 1
    return found


def circle(arrows: Iterable[tuple[str, str]]) -> list[str]:
    """Return the rooms of one circle, in order, the first one again at the end; empty where there is none."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for importer, imported in arrows:
        sorter.add(importer, imported)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def main(arguments: list[str] | None = None) -> int:
    """Print what was found; 1 when a package has a circle or more arrows than it may have, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.rooms", description=__doc__)
    parser.add_argument(
        "packages", nargs="*", default=["strategies", "webhook"], help="strategies and webhook by default"
    )
    parser.add_argument("--most", type=int, metavar="N", help="fail when a package has more arrows than this")
    options = parser.parse_args(arguments)
    return max(_show(package, options.most) for package in options.packages)


def _show(package: str, most: int | None) -> int:
    arrows = read(package)
    rooms = sorted({room for arrow in arrows for room in arrow})
    found = circle(arrows)
    print(f"{package}: {len(rooms)} rooms, {len(arrows)} arrows, {'a circle' if found else 'no circle'}")
    for room in rooms:
        below = [f"{imported} ({count})" for (importer, imported), count in sorted(arrows.items()) if importer == room]
        print(f"  {room} -> {', '.join(below) or 'nothing'}")
    if found:
        print(f"  circle: {' -> '.join(found)}")
    return int(bool(found) or (most is not None and len(arrows) > most))


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("muster")


def _room(module: str) -> str:
    """Return the room of a module: its first name below the package, or the package itself."""
    _, package, *rest = module.split(".")
    return rest[0] if rest else package


if __name__ == "__main__":
    sys.exit(main())
