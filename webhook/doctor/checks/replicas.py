"""Checks `/readyz` and `/metrics` of each replica, through the API server's proxy to pods.

The proxy does not verify Muster's certificate; the check probe does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from muster.kube import transports
from muster.webhook import configs
from muster.webhook.doctor import diagnoses, selectors
from muster.webhook.doctor.checks import deployment
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "Sample", "judge_leaders", "judge_metrics", "look", "needs", "samples"]

CHECK = "replicas"
_MOST = 16
_PORT = "webhook"
_OLD = 130.0  # seconds; docs/architecture.md, how fresh an answer is
_DAY = 86400.0
_COUNTERS = {
    "muster_audit_problems_total": ("audit records were lost or written elsewhere", "see docs/audit.md"),
    "muster_plugin_failures_total": (
        "calls of strategies failed",
        "see the log of the replica for the name of the framework",
    ),
    "muster_config_reloads_total": ("changed configurations were refused", "correct the ConfigMap; the log says why"),
}
"""Counters that should stay at 0; of reloads only the refused ones."""

Sample = tuple[str, Mapping[str, str], float]


def needs(options: Options) -> tuple[Need, ...]:
    """Return the permissions to list the pods and to proxy to them."""
    return (
        Need("get", "deployments", "apps", options.namespace, options.name),
        Need("list", "pods", "", options.namespace),
        Need("get", "pods/proxy", "", options.namespace),
    )


async def look(installation: Installation) -> list[Diagnosis]:
    """Check the first 16 replicas.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    owner = await installation.get(deployment.path(installation.options))
    if owner is None:
        return []  # the check deployment reports it
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
    """Return diagnoses of one replica, and 1 when it leads the controllers."""
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
        return [diagnoses.unknown(CHECK, f"the metrics of replica {name} cannot be read: {error}", "see its log")], 0.0
    problems = list(judge_metrics(name, read, config))
    leads = sum(value for metric, _, value in read if metric == "muster_controller_leading")
    return problems or [
        diagnoses.ok(CHECK, f"replica {name} is ready, its caches are fresh, its certificate is valid")
    ], leads


def samples(text: str) -> Iterator[Sample]:
    """Yield the samples of a text exposition: name, labels, value.

    Raises:
        ValueError: the text is not in that format.
    """
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, float(sample.value)


def judge_metrics(name: str, read: Iterable[Sample], config: configs.Config) -> Iterator[Diagnosis]:
    """Yield a diagnosis for each metric of a replica that is not as it should be."""
    counts: defaultdict[str, float] = defaultdict(float)
    for metric, labels, value in read:
        if metric == "muster_certificate_expiry_seconds":
            yield from _expiry(name, labels.get("certificate", ""), value, config)
        elif metric == "muster_cluster_cache_age_seconds" and value > _OLD:
            what = f"replica {name} has had no news of {labels.get('kind')} for {value:.0f} s"
            yield diagnoses.warning(
                CHECK, what, "look for `reflector` in its log, and check that it can reach the API server"
            )
        elif metric in _COUNTERS and labels.get("outcome", "refused") == "refused":
            counts[metric] += value
    for metric, count in counts.items():
        if count:
            said, todo = _COUNTERS[metric]
            yield diagnoses.warning(CHECK, f"replica {name}: {count:.0f} {said} since it started", todo)


def judge_leaders(leaders: float) -> list[Diagnosis]:
    """Report when not exactly one replica leads the controllers."""
    if leaders == 1:
        return []
    what = f"{leaders:.0f} replicas report that they lead the controllers; it should be one"
    return [
        diagnoses.warning(CHECK, what, "run this again in 20 s; then see `kubectl get lease` (docs/controllers.md)")
    ]


def _expiry(name: str, certificate: str, seconds: float, config: configs.Config) -> Iterator[Diagnosis]:
    if seconds <= 0:
        what = f"replica {name}: its {certificate} certificate expired {-seconds / 3600:.1f} hours ago"
        yield diagnoses.error(CHECK, what, "install again, to renew it (docs/installation.md)")
    elif seconds < 30 * _DAY and not _renews(config):
        what = f"replica {name}: its {certificate} certificate expires in {seconds / _DAY:.1f} days"
        yield diagnoses.warning(CHECK, what, "install again, to renew it (docs/installation.md)")


def _renews(config: configs.Config) -> bool:
    """Whether Muster makes its certificates itself, and so renews them in time."""
    return config.tls.self_signed or config.tls.secret is not None


def _port(pod: Document) -> int:
    ports: list[Mapping[str, Any]] = [
        port for container in pod["spec"]["containers"] for port in container.get("ports") or ()
    ]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == _PORT), 8443)
