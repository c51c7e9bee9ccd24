"""Measures growth: `python -m tests.growth.measure [part of an axis's name ...]`, in a process of its own.

Prints each axis along which the work of a decision grows faster than its documents, and how many were measured. The
axes are those of lists; with `texts` among the parts also those of each text, and with `scripts`, `words`, `quantities`
or `snapshots` those of `tests.growth.scripts`. Those that begin with `kind` are the kinds of `bench.largest`, in which
several lists grow together; those that begin with `memory` are updates of jobs with such a memory (`memories`).
"""

from __future__ import annotations

from tests.growth import work

work.install()

import itertools
import math
import sys

import orjson

from tests.growth import axes, kinds, memories, scripts
from tests.support import admissions
from muster.webhook.admission import decisions, reviews

STEEPEST = 1.2
_TOGETHER = 2.0
"""Of parts that train together, of which each depends on all others; `MOST_TOGETHER` bounds their number."""
_LEAST = 5.0  # steps for each byte; below it nothing has grown


def steps(case, phase) -> int:
    """Return the counted steps of one decision."""
    operation = "CREATE" if case.old is None else "UPDATE"
    review = admissions.make_review(case.document, operation=operation, old=case.old)
    request = reviews.parse(orjson.dumps(review), phase)
    reader = admissions.make_reader(*case.cluster)
    before = work.work.steps
    decisions.evaluate(request, reader, case.policy)
    return work.work.steps - before


def slope(axis, phase):
    """Return the slope of a doubling in the log-log plane, and the steps for each byte of it.

    What is done once from some size on is steep in one doubling, and not in the larger ones after it.
    """
    first = _slope(axis, phase, 1)
    return first if first[0] <= STEEPEST or 0 < axis.most < 16 * axis.unit else _slope(axis, phase, 4)


def _slope(axis, phase, times):
    cases = [axis.make(axis.unit * times * factor) for factor in (1, 2, 4)]
    counts = [steps(case, phase) for case in cases]
    sizes = [case.size for case in cases]
    first = max(counts[1] - counts[0], _LEAST * (sizes[1] - sizes[0]))
    last = max(counts[2] - counts[1], 1)
    grew = math.log((sizes[2] - sizes[1]) / (sizes[1] - sizes[0]))
    return math.log(max(last / first, 1)) / grew, last / (sizes[2] - sizes[1]), counts


def main(parts):
    """Measure the axes whose names have all these parts; return how many grow too fast."""
    measured = found = 0
    every = (*axes.axes(texts="texts" in parts), *scripts.axes(), *kinds.axes(), *memories.axes())
    for axis, phase in itertools.product(every, ("mutate", "validate")):
        if all(part in axis.name for part in parts if part != "texts"):
            measured += 1
            steep, per_byte, counts = slope(axis, phase)
            if steep > (_TOGETHER if axis.name.startswith("together ") else STEEPEST):
                found += 1
                print(f"{phase} {axis.name}: slope {steep:.2f}, {per_byte:.0f} steps a byte, {counts}")
    print(f"{measured} measured, {found} too steep")
    return found


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
