"""Runs a row of cases in one process, and keeps one example of each way to fail."""

from __future__ import annotations

import collections
import re
from pathlib import Path

from tests.fuzz import cases, drawing, invariants, services, trials

__all__ = ["BUILD", "batch", "signature_of"]

BUILD = Path(__file__).parents[2] / "build" / "fuzz"


def batch(asked, judged=invariants.INVARIANTS, **options):
    """Run some cases; return counts, and for each signature an example.

    Args:
        asked: seed, number of the first case, and of the one after the last.
        judged: the invariants.
        options: arguments of `services.Service`.
    """
    seed, first, end = asked
    counts, found = collections.Counter(), {}
    with services.Service(**options) as service:
        planted = {}
        for number in range(first, end):
            case = drawing.draw(seed, number)
            story = trials.run(service, case)
            counts.update(cases=1, requests=len(story.exchanges), bytes=len(story.mutated.body))
            planted |= dict.fromkeys(case.planted, case)
            _note(found, case, invariants.faults(story, judged))
            if (number - first) % 20 == 19:
                _note_told(found, planted, service.told())
                planted = {}
        _note_told(found, planted, service.told())
    return counts, found


def _note(found, case, faults):
    for signature, fault in {signature_of(*each): each[1] for each in faults}.items():
        if signature not in found:
            found[signature] = {"fault": fault, "file": str(cases.save(case, BUILD)), "how": case.how, "cases": 0}
        found[signature]["cases"] += 1


def _note_told(found, planted, told):
    for secret, case in planted.items():
        _note(
            found, case, [("no_planted_secret_is_told", fault) for fault in invariants.told_faults(case, secret, told)]
        )


def signature_of(invariant, fault):
    """The way to fail: the invariant, and what does not depend on the case."""
    told = re.sub(r"(planted \w+):.*", r"\1", fault)
    return f"{invariant}: {re.sub(r'[0-9][0-9.]*', 'N', told)[:90]}"
