"""Metrics for Prometheus, without labels that grow.

No label holds a namespace, an object's name, a user or a message: series multiply by such labels until they cost more
than the service (Kyverno #8401: 1.2 million series of one histogram). The audit log has these details.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """All series of one service; each instance has a registry of its own, so that tests do not share counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "muster_admission_requests",
            "Admission decisions",
            ("resource", "operation", "phase", "decision", "mode"),
            registry=self.registry,
        )
        self._duration = Histogram(
            "muster_admission_duration_seconds",
            "Time from the body's arrival to the answer",
            ("resource", "phase"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._failures = Counter(
            "muster_plugin_failures",
            "Strategies that raised, hung or returned something invalid",
            ("framework",),
            registry=self.registry,
        )
        self._refused = Counter(
            "muster_refused_requests",
            "Requests that were not a readable AdmissionReview",
            ("reason",),
            registry=self.registry,
        )
        self._fetches = Counter(
            "muster_cluster_fetches", "Direct GETs after a cache miss", ("outcome",), registry=self.registry
        )
        self._dry_runs = Counter(
            "muster_dry_runs", "Dry runs of Jobs and pods in the validating phase", ("outcome",), registry=self.registry
        )
        self._reloads = Counter(
            "muster_config_reloads", "Changed configuration files", ("outcome",), registry=self.registry
        )
        self._audit = Counter(
            "muster_audit_problems", "Audit records dropped, and failures of a sink", ("kind",), registry=self.registry
        )
        self._writes = Counter(
            "muster_controller_writes",
            "Objects that the controllers wrote, or tried to",
            ("verb", "resource", "outcome"),
            registry=self.registry,
        )
        self._trainings = Counter(
            "muster_trainings",
            "Trainings by whether they train as was asked for, and by what Muster foretold of them",
            ("outcome", "predicted"),
            registry=self.registry,
        )
        self._closed = Counter(
            "muster_connections_closed",
            "Connections that were closed for what they did",
            ("reason",),
            registry=self.registry,
        )
        self._in_flight = Gauge("muster_admission_in_flight", "Admissions under way", registry=self.registry)
        # Prometheus cannot see a series rise to its first value, so series that alerts use begin at zero.
        for counter, values in (
            (self._refused, ("busy", "content-type", "method", "timeout", "too-large", "unreadable")),
            (self._fetches, ("found", "missing", "failed")),
            (self._dry_runs, ("made", "refused", "kept", "failed", "forbidden", "paused")),
            (self._reloads, ("taken", "refused")),
            (self._audit, ("anchor", "concealed", "dropped", "event", "report", "sink")),
            (self._closed, ("crowded", "slow")),
        ):
            for value in values:
                counter.labels(value)
        for outcome, predicted in itertools.product(("as-asked", "not-as-asked", "nothing-asked"), ("right", "open")):
            self._trainings.labels(outcome, predicted)
        self._observers: dict[tuple[str, ...], Callable[[float], None]] = {}

    def observe(self, labels: tuple[str, str, str, str, str], seconds: float) -> None:
        """Count one decision: (resource, operation, phase, decision, mode)."""
        observer = self._observers.get(labels)
        if observer is None:
            observer = self._observers[labels] = self._observer(labels)
        observer(seconds)

    def _observer(self, labels: tuple[str, str, str, str, str]) -> Callable[[float], None]:
        count = self._requests.labels(*labels).inc
        duration = self._duration.labels(labels[0], labels[2]).observe

        def observe(seconds: float) -> None:
            count()
            duration(seconds)

        return observe

    def plugin_failed(self, framework: str) -> None:
        """Count a failing strategy; `framework` is a registered one, never the label of a job."""
        self._failures.labels(framework).inc()

    def refused(self, reason: str) -> None:
        """Count a request that was answered without a decision."""
        self._refused.labels(reason).inc()

    def fetched(self, outcome: str) -> None:
        """Count a direct GET: `found`, `missing`, `failed`."""
        self._fetches.labels(outcome).inc()

    def dry_ran(self, outcome: str) -> None:
        """Count a dry run: `made`, `refused`, `kept` from before, `failed`, `forbidden`, `paused` after a failure."""
        self._dry_runs.labels(outcome).inc()

    def reloaded(self, outcome: str) -> None:
        """Count a changed configuration file: `taken` or `refused`."""
        self._reloads.labels(outcome).inc()

    def audit_problem(self, kind: str, count: int = 1) -> None:
        """Count a problem of the audit log or of its notices.

        Args:
            kind: `concealed` or `dropped` records, failures of a `sink`, denials without an `event`, decisions missing
                in a `report`, or failed writes of an `anchor`.
            count: how many.
        """
        self._audit.labels(kind).inc(count)

    def written(self, verb: str, resource: str, outcome: str) -> None:
        """Count a write of the controllers: `ok`, `conflict`, `failed`."""
        self._writes.labels(verb, resource, outcome).inc()

    def trained(self, outcome: str, predicted: str) -> None:
        """Count a training whose report was kept.

        Args:
            outcome: `as-asked`, `not-as-asked`, `nothing-asked`.
            predicted: `right` or `open`, what Muster foretold.
        """
        self._trainings.labels(outcome, predicted).inc()

    def connection_closed(self, reason: str) -> None:
        """Count a connection that was closed: `crowded` for another one, or because it was `slow`."""
        self._closed.labels(reason).inc()

    def in_flight(self, read: Callable[[], float]) -> None:
        """Tell at each scrape how many admissions are under way."""
        self._in_flight.set_function(read)

    def watch(self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a gauge that is read at each scrape, one series per key of what `read` returns."""
        self.registry.register(_Watched(name, text, label, read))  # a Collector by shape

    def render(self) -> bytes:
        """Return the text exposition."""
        return generate_latest(self.registry)


class _Watched:
    def __init__(self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        self._name, self._text, self._label, self._read = name, text, label, read

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for key, value in self._read().items():
            family.add_metric([key], value)
        yield family

    def describe(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(self._name, self._text, labels=[self._label])
