"""Metrics of one training for Prometheus, at a port of its own process, where MUSTER_METRICS_PORT names one.

A series is there once its value is known, so that none says 0 for what nobody measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from muster_guard import endings
from muster_telemetry import measures
from muster_telemetry.syncs import Syncs

__all__ = ["PORT", "Meters", "port"]

PORT = "MUSTER_METRICS_PORT"
_GAUGES = {
    "step": ("step", "Step of the optimizer"),
    "reward": ("reward", "Mean reward of the last logged steps"),
    "difference": ("sampling_logp_difference", "Mean difference of log probabilities, trainer and sampler, in nats"),
    "ratio": ("importance_ratio", "Mean importance ratio"),
    "staleness": ("staleness_versions", "Versions by which samples are behind, mean"),
    "tokens_per_second": ("tokens_per_second", "Tokens a second, by the clock on the wall"),
}


class Meters:
    """The series of one training, as a collector of `prometheus_client`.

    Args:
        syncs: of its weights.
    """

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs
        self._last: dict[str, float] = {}
        self._dropped = 0.0

    def add(self, row: Mapping[str, Any], step: int) -> None:
        """Take one row of the log."""
        found = measures.values(row)
        self._dropped += found.pop("dropped", 0.0)
        self._last = {**self._last, **found, "step": float(step)}

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics; called from threads of the listener."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily  # noqa: PLC0415  # not in every image

        last = self._last
        for name, (metric, text) in _GAUGES.items():
            if name in last:
                yield GaugeMetricFamily(f"muster_training_{metric}", text, value=last[name])
        if "staleness" in last:
            yield CounterMetricFamily(
                "muster_training_samples_dropped", "Samples that were thrown away", value=self._dropped
            )
        yield SummaryMetricFamily(
            "muster_training_weight_sync_seconds",
            "Sending weights to the sampler",
            count_value=self._syncs.count,
            sum_value=self._syncs.total,
        )

    def serve(self, number: int) -> Any:
        """Listen at a port of all addresses until the process ends; returns the listener.

        Raises:
            ImportError: this image has no `prometheus_client`.
            OSError: the port is taken.
        """
        import prometheus_client  # noqa: PLC0415  # not in every image

        registry = prometheus_client.CollectorRegistry()
        registry.register(self)  # a Collector by shape
        listener, _ = prometheus_client.start_http_server(number, "0.0.0.0", registry)  # noqa: S104  # of a pod
        return listener


def port(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the port that is asked for; a value that is none is told, and never ends a training."""
    text = environment.get(PORT, "")
    if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536:
        return int(text)
    if text:
        endings.say(f"muster: {PORT}: {text[:40]!r} is not a port of 1 to 65535, so there are no metrics: correct it")
    return None
