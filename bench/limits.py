"""What the largest documents that pass the budget cost: processor time, from the bytes of a review to its record.

A document is mutated, and validated as the mutation leaves it, with nothing remembered from the reviews before. The
answer is made while the author waits; the record is redacted and sealed on a thread of its own. A busy machine runs the
same code at half its speed, so each round is followed by decisions about the small job of the other measurements, and
the same figures are shown as those of the machine on which that takes 114 µs (docs/internals/performance.md).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from bench import largest, memories
from bench import reviews as usual
from bench.largest import Largest
from muster.audit import known
from muster.audit.chain import Chain
from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Policy
from muster.webhook.server import endings
from tests.support import admissions

__all__ = ["LIMIT", "Cost", "costs", "run"]

LIMIT = 0.25
"""Seconds of processor time that a decision may take."""
_ROUNDS = 3
_USUAL = 114e-6
_PHASES: tuple[reviews.Phase, ...] = ("mutate", "validate")


@dataclass(frozen=True)
class Cost:
    """What one review costs.

    Attributes:
        phase: mutate or validate.
        verdict: what was decided.
        size: bytes of the review.
        answer: seconds of processor time until the answer.
        record: those of the record.
        speed: the answer's seconds on the machine of docs/internals/performance.md, by its speed in the same round.
    """

    phase: reviews.Phase
    verdict: str
    size: int
    answer: float
    record: float
    speed: float


def run() -> None:
    """Print milliseconds of each kind, the worst first; FILTER has parts of the names of kinds, with commas."""
    parts = [each for each in os.environ.get("FILTER", "").split(",") if each]
    rows = [(each, costs(each)) for each in largest.documents(*parts)]
    rows.sort(key=lambda row: -max(cost.speed for cost in row[1]))
    print(
        f"milliseconds of processor time, the least of {_ROUNDS} rounds, (on a quiet machine); {sys.version.split()[0]}"
    )
    print(f"{'what there is much of':52} {'size':>9} {'kB':>6} {'mutate':>22} {'validate':>22} {'records':>9}")
    for each, found in rows:
        shown = [f"{cost.answer * 1e3:.0f} ({cost.speed * 1e3:.0f}) {cost.verdict}" for cost in found]
        records = " ".join(f"{cost.record * 1e3:.0f}" for cost in found)
        size = found[0].size // 1000
        print(f"{each.name:52} {each.size:9,} {size:6,} {shown[0]:>22} {shown[1]:>22} {records:>9}")
    above = [each.name for each, found in rows if any(cost.speed > LIMIT for cost in found)]
    print(f"{len(rows)} kinds, {len(above)} above {LIMIT * 1e3:.0f} ms on a quiet machine")


def costs(each: Largest) -> list[Cost]:
    """Return what the mutation of a document costs, and the validation of what that leaves."""
    return list(_costs(each))


def _costs(each: Largest) -> Iterator[Cost]:
    document = each.document
    for phase in _PHASES:
        body = orjson.dumps(admissions.make_review(document))
        rounds = [_round(body, phase, each) for _ in range(_ROUNDS)]
        decision = rounds[0][0]
        answer, record, speed = (min(times) for times in zip(*(found[1] for found in rounds), strict=True))
        yield Cost(phase, decision.verdict, len(body), answer, record, speed)
        document = decision.document


def _round(body: bytes, phase: reviews.Phase, each: Largest) -> tuple[Decision, tuple[float, float, float]]:
    """Return the decision, and the seconds of the answer, of the record, and of the answer on a quiet machine."""
    reader = admissions.make_reader(*each.cluster)
    memories.forget()
    began = time.process_time()
    decision = decisions.evaluate(reviews.parse(body, phase), reader, each.policy)
    record = endings.end(decision, 0.0).record
    answered = time.process_time()
    assert record is not None
    Chain().seal(known.record(record))
    recorded = time.process_time()
    answer = answered - began
    return decision, (answer, recorded - answered, answer * _USUAL / _usually())


def _usually() -> float:
    """Return the seconds of a decision about the usual TrainJob, now."""
    reader, policy = usual.reader(), Policy()
    request = reviews.parse(usual.trainjob_review(), "mutate")
    spent = []
    for _ in range(100):
        began = time.process_time()
        decisions.evaluate(request, reader, policy)
        spent.append(time.process_time() - began)
    return min(spent)
