"""What one decision costs: bytes in, bytes out, no network, no audit."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench import figures, reviews
from muster.webhook.admission import answers, decisions
from muster.webhook.admission import reviews as wire
from muster.webhook.admission.policies import Policy

__all__ = ["run"]

_ROUNDS, _CALLS = 7, 1_000


def run() -> None:
    """Print microseconds per decision."""
    reader, policy = reviews.reader(), Policy()
    bodies = {"TrainJob": reviews.trainjob_review(), "JobSet": reviews.jobset_review()}

    def whole(body: bytes, phase: wire.Phase) -> Callable[[], object]:
        return lambda: wire.dumps(answers.answer(decisions.evaluate(wire.parse(body, phase), reader, policy)))

    def evaluate(body: bytes, phase: wire.Phase) -> Callable[[], object]:
        request = wire.parse(body, phase)
        return lambda: decisions.evaluate(request, reader, policy)

    print(
        f"microseconds on one core, {_ROUNDS} rounds of {_CALLS} calls, median [low..high] of each round's p50 and p99"
    )
    print(f"{'what':42} {'bytes':>6} {'p50':>22} {'p99':>24}")
    for name, body in bodies.items():
        _row(f"evaluate {name}, mutate", body, evaluate(body, "mutate"))
        mutated = reviews.as_mutated(body)
        _row(f"evaluate {name}, validate", mutated, evaluate(mutated, "validate"))
        _row(f"bytes to bytes {name}, mutate", body, whole(body, "mutate"))


def _row(name: str, body: bytes, call: Callable[[], object]) -> None:
    halves, tails = [], []
    for _ in range(_ROUNDS):
        samples = _samples(call)
        halves.append(figures.percentile(samples, 0.5))
        tails.append(figures.percentile(samples, 0.99))
    print(f"{name:42} {len(body):6} {figures.rounds(halves)!s:>22} {figures.rounds(tails)!s:>24}")


def _samples(call: Callable[[], object]) -> list[float]:
    samples = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        call()
        samples.append((time.perf_counter() - started) * 1e6)
    return samples
