"""Checks of each replica through the proxy of the API server: whether it is ready, and what its metrics say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from muster.kube import transports
from muster.strategies.documents.decoding import items, member
from muster.webhook import configs
from muster.webhook.doctor import workload
from muster.webhook.doctor.diagnoses import Diagnosis, error, ok, unknown, warning
from muster.webhook.doctor.live_installation import Document, Installation

__all__ = ["replicas"]

_MOST = 16
_PORT = "webhook"
_OLD = 130.0  # seconds; docs/architecture.md, how fresh an answer is
_DAY = 86400.0
_RENEW = "install again, to renew it (docs/install.md)"
_COUNTERS = {
    "muster_audit_problems_total": ("audit records were lost or written elsewhere", "see docs/audit.md"),
    "muster_plugin_failures_total": (
        "calls of strategies failed",
        "see the log of the replica for the name of the framework",
    ),
    "muster_config_reloads_total": ("changed configurations were refused", "correct the ConfigMap; the log says why"),
}
"""Counters that should stay at 0; of reloads only the refused ones."""
_Sample = tuple[str, Mapping[str, str], float]


async def replicas(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Check the first 16 replicas."""
    owner = await workload.owner(installation)
    if owner is None:
        return  # the check deployment reports it
    chosen = ",".join(f"{key}={value}" for key, value in member(owner, "spec", "selector", "matchLabels").items())
    path = f"/api/v1/namespaces/{installation.options.namespace}/pods"
    pods = await installation.list(path, labelSelector=chosen)
    config, leaders = await installation.configured(), 0.0
    running = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")][:_MOST]
    for pod in running:
        found, leads = await _asked(installation, path, pod, config)
        leaders += leads
        for each in found:
            yield each
    if config.controllers.enabled and running and leaders != 1:
        what = f"{leaders:.0f} replicas report that they lead the controllers; it should be one"
        yield warning(what, "run this again in 20 s; then see `kubectl get lease` (docs/sharing.md)")


async def _asked(
    installation: Installation, pods: str, pod: Document, config: configs.Config
) -> tuple[list[Diagnosis], float]:
    """Return diagnoses of one replica, and 1 when it leads the controllers."""
    name = str(pod["metadata"]["name"])
    ports = [port for container in pod["spec"]["containers"] for port in items(container, "ports")]
    number = next((int(port["containerPort"]) for port in ports if port.get("name") == _PORT), 8443)
    base = f"{pods}/https:{name}:{number}/proxy"
    try:
        await installation.text(f"{base}/readyz")
    except transports.RefusedError as refused:
        todo = f"kubectl -n {installation.options.namespace} logs {name}"
        return [error(f"replica {name} is not ready: {refused}", todo)], 0.0
    try:
        families = text_string_to_metric_families(await installation.text(f"{base}/metrics"))
        read = [(each.name, each.labels, float(each.value)) for family in families for each in family.samples]
    except (transports.TransportError, ValueError) as problem:
        return [unknown(f"the metrics of replica {name} cannot be read: {problem}", "see its log")], 0.0
    right = ok(f"replica {name} is ready, its caches are fresh, its certificate is valid")
    leads = sum(value for metric, _, value in read if metric == "muster_controller_leading")
    return list(_judged(name, read, config)) or [right], leads


def _judged(name: str, read: Iterable[_Sample], config: configs.Config) -> Iterator[Diagnosis]:
    """Yield a diagnosis for each metric of a replica that is not as it should be."""
    counts: defaultdict[str, float] = defaultdict(float)
    renews = config.tls.self_signed or config.tls.secret is not None  # Muster makes its certificates itself, in time
    for metric, labels, value in read:
        if metric == "muster_certificate_expiry_seconds":
            what = f"replica {name}: its {labels.get('certificate', '')} certificate"
            if value <= 0:
                yield error(f"{what} expired {-value / 3600:.1f} hours ago", _RENEW)
            elif value < 30 * _DAY and not renews:
                yield warning(f"{what} expires in {value / _DAY:.1f} days", _RENEW)
        elif metric == "muster_cluster_cache_age_seconds" and value > _OLD:
            what = f"replica {name} has had no news of {labels.get('kind')} for {value:.0f} s"
            yield warning(what, "look for `reflector` in its log, and check that it can reach the API server")
        elif metric in _COUNTERS and labels.get("outcome", "refused") == "refused":
            counts[metric] += value
    for metric, count in counts.items():
        if count:
            problem, todo = _COUNTERS[metric]
            yield warning(f"replica {name}: {count:.0f} {problem} since it started", todo)
