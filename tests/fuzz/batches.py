"""Runs a row of cases in one process, and keeps one example of each way to fail."""

from __future__ import annotations

import collections
import gc
import re
import signal
import time
from pathlib import Path

from tests.fuzz import cases, drawing, invariants, services, trials

__all__ = ["BUILD", "batch", "begin", "faults_of", "one", "settle", "signature_of"]

BUILD = Path(__file__).parents[2] / "build" / "fuzz"
SHARE = 8
"""Of one case in so many, large reviews are evaluated in processes of their own, and Events and reports are written, as
they are of each case with a secret."""
_TRIES = 3
_SLOW = invariants.a_decision_takes_no_longer_than_its_size_is_worth


def settle():
    """Collect garbage rarely: nearly all that a case makes is freed without, and what the process has read stays."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


def begin():
    """Begin a process of several; it is here because a new process knows no function of `__main__`."""
    settle()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who counts is told


def batch(asked, judged=invariants.INVARIANTS, **options):
    """Run some cases; return counts and seconds, and for each signature an example.

    Args:
        asked: seed, number of the first case, and of the one after the last.
        judged: the invariants.
        options: arguments of `services.Service`.
    """
    seed, first, end = asked
    began, busy = time.monotonic(), time.process_time()
    counts, found, planted = collections.Counter(), {}, {}
    with services.Service(**options) as service:
        for number in range(first, end):
            case, story, faults = one(service, seed, number, judged)
            counts.update(cases=1, requests=len(story.exchanges), bytes=len(story.mutated.body))
            planted |= dict.fromkeys(case.planted, case)
            _note(found, case, faults)
        for case, fault in invariants.page_faults(planted, service.page()):
            _note(found, case, [fault])
    counts.update(seconds=time.monotonic() - began, processor=time.process_time() - busy)
    return counts, found


def one(service, seed, number, judged=invariants.INVARIANTS):
    """Draw and run a case; return it, its story and its faults."""
    case = drawing.draw(seed, number)
    chosen = number % SHARE == 0
    return case, *faults_of(service, case, judged, told=chosen or bool(case.planted), forks=chosen)


def faults_of(service, case, judged=invariants.INVARIANTS, **how):
    """Run a case; return its story, and what contradicts as (invariant, what).

    A machine can be slow for a moment: a case is too slow when it is so each time.
    """
    story = trials.run(service, case, **how)
    faults = invariants.faults(story, judged)
    for _ in range(_TRIES - 1):
        if not any(name == _SLOW.__name__ for name, _ in faults):
            break
        if not list(_SLOW(trials.run(service, case, **how))):
            faults = [each for each in faults if each[0] != _SLOW.__name__]
    return story, faults


def _note(found, case, faults):
    for signature, fault in {signature_of(*each): each[1] for each in faults}.items():
        if signature not in found:
            found[signature] = {"fault": fault, "file": str(cases.save(case, BUILD)), "how": case.how, "cases": 0}
        found[signature]["cases"] += 1


def signature_of(invariant, fault):
    """The way to fail: the invariant, and what does not depend on the case."""
    told = re.sub(r"(planted \w+):.*", r"\1", fault)
    return f"{invariant}: {re.sub(r'[0-9][0-9.]*', 'N', told)[:90]}"
