"""A steady load of admissions through the API server: jobs in dry runs, one after another."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

from e2e.suites.support import documents, stalls
from e2e.suites.support.kubectls import Kubectl, KubectlError
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = ["Load", "probe"]


class Load:
    """Asks for the same job again and again while its `with` block runs, in a dry run, by several hands.

    A refused connection, an error of the API server and Muster's refusal are all answers; none is tried again.

    Args:
        kubectl: kubectl for the cluster.
        namespace: the namespace of the job.
        job: a TrainJob that is admitted.
        rate: admissions per second, together.
        hands: requests at the same time, at most.

    Attributes:
        answers: how often each was given; "" is an admission.
        seconds: how long each took, in the order in which they ended.
    """

    def __init__(
        self, kubectl: Kubectl, namespace: str, job: Mapping[str, Any], rate: float = 20.0, hands: int = 4
    ) -> None:
        self._kubectl = kubectl
        self._namespace = namespace
        self._job = job
        self._pause = hands / rate
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, name=f"load {hand}") for hand in range(hands)]
        self.answers: Counter[str] = Counter()
        self._failed: list[tuple[str, float, float]] = []
        self.seconds: list[float] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    @property
    def failures(self) -> dict[str, int]:
        """Every answer that was not an admission, and how often it was given while the machine did not stall."""
        return dict(Counter(answer for answer, begun, ended in self._failed if not stalls.overlap(begun, ended)))

    def __str__(self) -> str:
        """How many were admitted, and how many were not because the machine stalled."""
        excused = len(self._failed) - sum(self.failures.values())
        left_out = f" ({excused} others while the machine stood still)" if excused else ""
        return f"{self.answers['']} admissions{left_out}"

    def percentile(self, share: float) -> float:
        """Return the time under which this share of the answers came, in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            begun = time.monotonic()
            try:
                answer = self._kubectl.told("trainjobs", self._namespace, self._job).strip()
            except KubectlError as error:
                answer = f"no answer: {error}"
            ended = time.monotonic()
            with self._lock:
                self.answers[answer] += 1
                self.seconds.append(ended - begun)
                if answer:
                    self._failed.append((answer, begun, ended))
            due = max(due + self._pause, time.monotonic() - self._pause)
            self._over.wait(max(due - time.monotonic(), 0.0))


def probe(space: Space) -> dict[str, Any]:
    """Return a TrainJob that is admitted in a namespace, once its runtime is there and Trainer knows it."""
    runtime = documents.training_runtime("rt", "torch", nodes=2, command=["torchrun", "train.py"])
    job = documents.trainjob("probe", "rt")
    until("Trainer to take runtimes", lambda: space.apply(runtime).ok, 60)
    until("Trainer to know the runtime", lambda: space.apply(job, dry_run=True).ok, 60)
    return job
