"""Muster's own metrics, read as a monitoring system reads them, wherever Muster runs."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from urllib import parse

from prometheus_client.parser import text_string_to_metric_families

from e2e.suites.support.kubectls import Kubectl

__all__ = ["Sample", "get", "percentile", "read", "scraped", "total"]

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels, value."""

_SERVICE = "/api/v1/namespaces/muster-system/services/https:muster:443/proxy/metrics"


def scraped(kubectl: Kubectl) -> list[Sample]:
    """Return the samples of the installed Muster: through its Service, or at the URL that the API server calls.

    Raises:
        KubectlError, OSError: they cannot be read.
    """
    configuration = kubectl.get("mutatingwebhookconfigurations", "muster") or {}
    url = configuration["webhooks"][0]["clientConfig"].get("url")
    if url is None:
        return read(kubectl.run("get", "--raw", _SERVICE).expect().out)
    return read(get(parse.urljoin(url, "/metrics")))


def get(url: str, body: bytes | None = None, timeout: float = 20) -> str:
    """Return the answer of a test's HTTPS server, whatever certificate it serves."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310  # https, of ours
    with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:  # noqa: S310  # likewise
        text: str = answer.read().decode()
    return text


def read(text: str) -> list[Sample]:
    """Return the samples in a text exposition."""
    return [
        (each.name, each.labels, each.value)
        for family in text_string_to_metric_families(text)
        for each in family.samples
    ]


def total(samples: list[Sample], metric: str, **labels: str) -> float:
    """Return the sum of the samples of this name that have these labels."""
    return sum(value for _, value in _chosen(samples, metric, labels))


def percentile(before: list[Sample], after: list[Sample], share: float, metric: str, **labels: str) -> float:
    """Return the bucket's upper bound, in the metric's unit, below which a share of the new observations lies."""
    grown = {
        bound: total(after, f"{metric}_bucket", le=bound, **labels)
        - total(before, f"{metric}_bucket", le=bound, **labels)
        for bound in {each["le"] for each, _ in _chosen(after, f"{metric}_bucket", labels)}
    }
    count = max(grown.values(), default=0.0)
    bounds = sorted(grown, key=float)
    return float(next((bound for bound in bounds if grown[bound] >= share * count), "nan"))


def _chosen(samples: list[Sample], metric: str, labels: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], float]]:
    for name, has, value in samples:
        if name == metric and labels.items() <= has.items():
            yield has, value
