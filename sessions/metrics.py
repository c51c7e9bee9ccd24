"""Metrics of a Gateway for Prometheus: counts and seconds by closed sets of labels, none of which a tenant chooses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric

__all__ = ["ABSENCES", "CONTENT_TYPE", "ENGINES", "KINDS", "Metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ENGINES: Final = ("trainer", "sampler")
KINDS: Final = (
    "create_model",
    "forward",
    "forward_backward",
    "load_weights",
    "optim_step",
    "sample",
    "save_weights",
    "save_weights_external",
    "save_weights_for_sampler",
)
"""What `kind` may be of requests; whatever else the journal holds is `other`."""
ABSENCES: Final = ("seat", "device", "node", "failing", "refused", "starting")
"""Why an engine does not answer: its pod has no seat on a shared device, had no turn there yet, or has no node; it does
not start or ends again and again, it cannot be made of what it was given, or it is on its way."""
_CATEGORIES = ("user", "server")
_TOKENS = ("training", "sampling_prefill", "sampling_sample")
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0)


class Metrics:
    """All series of one Gateway; each instance has a registry of its own.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._busy = {each: _Busy(clock) for each in ENGINES}
        self._seconds = Histogram(
            "muster_sessions_request_seconds",
            "Seconds of requests that succeeded: until an engine was asked first, and from then until their end",
            ("kind", "phase"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._failures = self._counter("failures", "Requests that failed when their turn came", "kind", "category")
        self._tokens = self._counter("tokens", "Tokens that were trained on and sampled", "kind")
        self._restarts = self._counter("engine_restarts", "Engines that ended by themselves", "engine")
        self._waiting = self._gauge("requests_waiting", "Requests without a result, executed ones among them", "kind")
        self._up = self._gauge("engine_up", "Whether an engine answers", "engine")
        self._waits = self._gauge("engine_waits", "Whether an engine waits, by the reason", "engine", "reason")
        self._sessions = self._gauge("open_sessions", "Sessions that have not ended")
        self.registry.register(_Watched(self._busy))  # a Collector by shape
        self._begin()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"muster_sessions_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"muster_sessions_{name}", text, labels, registry=self.registry)

    def _begin(self) -> None:
        """Have the series that alerts use at zero, for Prometheus cannot see a series rise to its first value."""
        for engine in ENGINES:
            self._restarts.labels(engine)
        for tokens in _TOKENS:
            self._tokens.labels(tokens)
        for kind in KINDS:
            for category in _CATEGORIES:
                self._failures.labels(kind, category)

    @contextmanager
    def busy(self, engine: str) -> Iterator[None]:
        """Count the time of one request that is with an engine."""
        self._busy[engine].begin()
        try:
            yield
        finally:
            self._busy[engine].end()

    def ended(self, kind: str, waiting: float, executing: float) -> None:
        """Count a request that succeeded.

        Args:
            kind: of it.
            waiting: seconds until an engine was asked.
            executing: seconds from then until its result was in the journal.
        """
        self._seconds.labels(_kind(kind), "waiting").observe(max(0.0, waiting))
        self._seconds.labels(_kind(kind), "executing").observe(max(0.0, executing))

    def failed(self, kind: str, category: str) -> None:
        """Count a request that failed when its turn came."""
        self._failures.labels(_kind(kind), category).inc()

    def used(self, amounts: Mapping[str, int]) -> None:
        """Count tokens by their kind; what is not a number of tokens is left out."""
        for kind in _TOKENS:
            self._tokens.labels(kind).inc(amounts.get(kind, 0))

    def restarted(self, engine: str) -> None:
        """Count an engine that ended by itself."""
        self._restarts.labels(engine).inc()

    def looked(
        self, waiting: Mapping[str, int], up: Mapping[str, bool], absences: Mapping[str, str], sessions: int
    ) -> None:
        """Set what is read at each scrape: requests that wait by kind, engines, and sessions that are open.

        Args:
            waiting: requests by kind.
            up: whether an engine answers.
            absences: for what an engine waits, one of `ABSENCES`; empty for nothing.
            sessions: that are open.
        """
        known = {each: waiting.get(each, 0) for each in KINDS}
        self._waiting.labels("other").set(sum(waiting.values()) - sum(known.values()))
        for kind, count in known.items():
            self._waiting.labels(kind).set(count)
        for engine, is_up in up.items():
            self._up.labels(engine).set(is_up)
        for engine, absence in absences.items():
            for reason in ABSENCES:
                self._waits.labels(engine, reason).set(reason == absence)
        self._sessions.set(sessions)

    def render(self) -> bytes:
        """Return the text exposition, without the moments at which series were made, which double their number."""
        return generate_latest(_Lasting(self.registry))


def _kind(kind: str) -> str:
    return kind if kind in KINDS else "other"


class _Lasting(CollectorRegistry):
    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._of = registry

    def collect(self) -> Iterable[Metric]:
        for family in self._of.collect():
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family


class _Busy:
    """Seconds in which at least one request is with an engine."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._requests, self._since, self._before = 0, 0.0, 0.0

    def begin(self) -> None:
        if not self._requests:
            self._since = self._clock()
        self._requests += 1

    def end(self) -> None:
        self._requests -= 1
        if not self._requests:
            self._before += self._clock() - self._since

    @property
    def seconds(self) -> float:
        """Return all until now, also of requests that have not ended: a pass may take minutes."""
        return self._before + (self._clock() - self._since if self._requests else 0.0)


class _Watched:
    def __init__(self, busy: Mapping[str, _Busy]) -> None:
        self._busy = busy

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "muster_sessions_engine_busy_seconds", "Seconds in which an engine had a request", labels=["engine"]
        )
        for engine, busy in self._busy.items():
            family.add_metric([engine], busy.seconds)
        yield family
