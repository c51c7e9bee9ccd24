"""What each replica says of itself: `/readyz` and `/metrics`, reached through the API server's proxy to pods.

The proxy does not verify Muster's certificate; that it does verify is shown by the probe.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from webhook import configs
from webhook.cluster import transports
from webhook.doctor import diagnoses, selectors
from webhook.doctor.checks import deployment
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Document, Installation, Options
from webhook.doctor.permissions import Need

__all__ = ["CHECK", "Sample", "judge_leaders", "judge_metrics", "look", "needs", "samples"]

CHECK = "replicas"
_MOST = 16
_PORT = "webhook"
_OLD = 130.0  # seconds; docs/architecture.md, how fresh an answer is
_DAY = 86400.0
_COUNTERS = {
    "muster_audit_problems_total": ("audit records were lost or written elsewhere", "see docs/audit.md"),
    "muster_plugin_failures_total": ("calls of strategies failed", "see the replica's log for the framework's name"),
    "muster_config_reloads_total": ("changed configurations were refused", "correct the ConfigMap; the log says why"),
}
"""Counters that stay at 0 where all is well; of reloads only the refused ones count."""

Sample = tuple[str, Mapping[str, str], float]


def needs(options: Options) -> tuple[Need, ...]:
    """To find the pods and to reach them."""
    return (
        Need("get", "deployments", "apps", options.namespace, options.name),
        Need("list", "pods", "", options.namespace),
        Need("get", "pods/proxy", "", options.namespace),
    )


async def look(installation: Installation) -> list[Diagnosis]:
    """Ask every replica, the first 16 of them.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    owner = await installation.get(deployment.path(installation.options))
    if owner is None:
        return []  # said by the check of the Deployment
    namespace = installation.options.namespace
    labels = selectors.text(owner["spec"].get("selector"))
    pods = await installation.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=labels)
    config, out, leaders = await installation.configured(), list[Diagnosis](), 0.0
    running = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")][:_MOST]
    for pod in running:
        found, leads = await _asked(installation, pod, config)
        out += found
        leaders += leads
    if config.controllers.enabled and running:
        out += judge_leaders(leaders)
    return out


async def _asked(installation: Installation, pod: Document, config: configs.Config) -> tuple[list[Diagnosis], float]:
    """Return what is wrong with one replica, and whether it leads the controllers."""
    name = str(pod["metadata"]["name"])
    base = f"/api/v1/namespaces/{installation.options.namespace}/pods/https:{name}:{_port(pod)}/proxy"
    try:
        await installation.text(f"{base}/readyz")
    except transports.RefusedError as error:
        what = f"replica {name} is not ready: {error}"
        return [diagnoses.error(CHECK, what, f"kubectl -n {installation.options.namespace} logs {name}")], 0.0
    try:
        read = list(samples(await installation.text(f"{base}/metrics")))
    except (transports.TransportError, ValueError) as error:
        return [diagnoses.unknown(CHECK, f"replica {name} shows no metrics: {error}", "see its log")], 0.0
    problems = list(judge_metrics(name, read, config))
    leads = sum(value for metric, _, value in read if metric == "muster_controller_leading")
    return problems or [
        diagnoses.ok(CHECK, f"replica {name} is ready, its caches are fresh, its certificate holds")
    ], leads


def samples(text: str) -> Iterator[Sample]:
    """Yield the samples of a text exposition: name, labels, value.

    Raises:
        ValueError: it is none.
    """
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, float(sample.value)


def judge_metrics(name: str, read: Iterable[Sample], config: configs.Config) -> Iterator[Diagnosis]:
    """Yield what the metrics of a replica say that is not well."""
    counts: defaultdict[str, float] = defaultdict(float)
    for metric, labels, value in read:
        if metric == "muster_certificate_expiry_seconds":
            yield from _expiry(name, labels.get("certificate", ""), value, config)
        elif metric == "muster_cluster_cache_age_seconds" and value > _OLD:
            what = f"replica {name} has not heard of {labels.get('kind')} for {value:.0f} s"
            yield diagnoses.warning(CHECK, what, "see its log for `reflector`, and whether it reaches the API server")
        elif metric in _COUNTERS and labels.get("outcome", "refused") == "refused":
            counts[metric] += value
    for metric, count in counts.items():
        if count:
            said, todo = _COUNTERS[metric]
            yield diagnoses.warning(CHECK, f"replica {name}: {count:.0f} {said} since it started", todo)


def judge_leaders(leaders: float) -> list[Diagnosis]:
    """Say whether one replica writes claims and seats."""
    if leaders == 1:
        return []
    what = f"{leaders:.0f} replicas say that they write claims and seats; it should be one"
    return [diagnoses.warning(CHECK, what, "ask again in 20 s; then see `kubectl get lease` (docs/controllers.md)")]


def _expiry(name: str, certificate: str, seconds: float, config: configs.Config) -> Iterator[Diagnosis]:
    if seconds <= 0:
        what = f"replica {name}: its {certificate} certificate expired {-seconds / 3600:.1f} hours ago"
        yield diagnoses.error(CHECK, what, "install again, which renews it (docs/installation.md)")
    elif seconds < 30 * _DAY and not _renews(config):
        what = f"replica {name}: its {certificate} certificate expires in {seconds / _DAY:.1f} days"
        yield diagnoses.warning(CHECK, what, "install again, which renews it (docs/installation.md)")


def _renews(config: configs.Config) -> bool:
    """Whether Muster makes its certificates itself, and renews them long before they end."""
    return config.tls.self_signed or config.tls.secret is not None


def _port(pod: Document) -> int:
    ports: list[Mapping[str, Any]] = [
        port for container in pod["spec"]["containers"] for port in container.get("ports") or ()
    ]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == _PORT), 8443)
