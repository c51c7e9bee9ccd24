"""Counts what the interpreter does for one review, from the bytes of its body to those of its answer and its record.

    python -m tests.costs.measure            the counts
    python -m tests.costs.measure --write    keeps them in figures.json (`make costs`)

Bytecodes of all Python code, and calls of functions in C, are counted; they are the same on every machine, however busy
it is. What one call into C costs is not seen: `tests/growth` counts that for lists and texts that grow, and `python -m
bench` measures it. This is for a process of its own, so that nothing was computed before by other tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from functools import partial
from pathlib import Path

import orjson

from bench import reviews
from bench.peers import changes
from muster.audit import known
from muster.audit.chain import Chain
from muster.webhook.admission.policies import Policy
from muster.webhook.metrics import Metrics
from muster.webhook.server import handlers
from muster.webhook.server.resolvers import Resolver

FIGURES = Path(__file__).with_name("figures.json")
_WARM = 3  # what is remembered of a review is remembered then


class _Log:
    """Does with a record what the audit writer does on its thread, but for writing it."""

    def __init__(self):
        self._chain = Chain()

    def submit(self, record):
        self._chain.seal(known.record(record))
        return True


def cases(loop):
    metrics = Metrics()
    admission = handlers.Admission(
        partial(_same, Policy()), Resolver(reviews.reader(), None, metrics), _Log(), metrics, (1, 60.0)
    )
    for name, kind, body in (
        ("TrainJob", "TrainJob", reviews.trainjob_review()),
        ("JobSet", "JobSet", reviews.jobset_review()),
        ("JobSet of a user", "JobSet", orjson.dumps(changes.review(changes.job()))),
    ):
        for phase in ("mutate", "validate"):
            sent = body if phase == "mutate" else reviews.as_mutated(body)
            yield f"{name}, {phase}", partial(_answer, loop, admission, sent, phase, kind)


def _answer(loop, admission, body, phase, kind):
    return loop.run_until_complete(admission.admit(body, phase, kind)).body


def _same(policy):
    return policy


def _counted(call):
    """Return (bytecodes, calls into C) of a call."""
    bytecodes = calls = 0

    def trace(frame, event, _argument):
        nonlocal bytecodes
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        bytecodes += event == "opcode"
        return trace

    def profile(_frame, event, _argument):
        nonlocal calls
        calls += event == "c_call"

    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        answer = call()
    finally:
        sys.setprofile(None)
        sys.settrace(None)
    assert b'"allowed":true' in answer, answer
    return bytecodes, calls


def figures():
    """Return the counts of each case, with everything remembered that a running service remembers."""
    found = {}
    # Not asyncio.Runner, which does more where nobody ignores SIGINT.
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        for name, call in cases(loop):
            for _ in range(_WARM):
                call()
            bytecodes, calls = _counted(call)
            found[name] = {"bytecodes": bytecodes, "calls": calls}
    return found


def main(arguments):
    """Print or keep the counts."""
    told = json.dumps(figures(), indent=1) + "\n"
    if "--write" in arguments:
        FIGURES.write_text(told, encoding="utf-8")
    sys.stdout.write(told)


if __name__ == "__main__":
    main(sys.argv[1:])
