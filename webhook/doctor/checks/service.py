"""Checks that the API server can reach Muster: the Service, its port, and its endpoints.

When the webhook entries have a URL, Muster is not behind a Service of this cluster, and this check is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.webhook.doctor import diagnoses
from muster.webhook.doctor.checks import deployment, webhooks
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "judge", "look", "needs"]

CHECK = "service"


def needs(options: Options) -> tuple[Need, ...]:
    """Return the permissions to read the Service and its EndpointSlices."""
    return (
        Need("get", "services", "", options.namespace, options.name),
        Need("list", "endpointslices", "discovery.k8s.io", options.namespace),
        *webhooks.needs(options),
    )


async def look(installation: Installation) -> list[Diagnosis]:
    """Read the Service and its EndpointSlices.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    options = installation.options
    found = await installation.get(f"/api/v1/namespaces/{options.namespace}/services/{options.name}")
    if await webhooks.is_elsewhere(installation):
        return [diagnoses.ok(CHECK, webhooks.ELSEWHERE)]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{options.namespace}/endpointslices"
    slices = await installation.list(path, labelSelector=f"kubernetes.io/service-name={options.name}")
    called = [
        (entry.get("clientConfig") or {}).get("service") or {} for _, entry in await webhooks.all_of(installation)
    ]
    return list(judge(found, slices, {int(each.get("port") or 443) for each in called}, options))


def judge(
    found: Document | None, slices: Iterable[Document], ports: Iterable[int], options: Options
) -> Iterator[Diagnosis]:
    """Yield diagnoses of the Service; `ports` are those that webhook entries call."""
    where = f"{options.namespace}/{options.name}"
    if found is None:
        what = f"Service {where} does not exist, so the API server cannot reach Muster"
        yield diagnoses.error(CHECK, what, "install again (docs/installation.md)")
        return
    served = {int(port["port"]) for port in found["spec"].get("ports") or ()}
    for port in sorted(set(ports) - served):
        what = f"webhook entries call port {port}, but Service {where} has {', '.join(map(str, sorted(served)))}"
        yield diagnoses.error(CHECK, what, "install again (docs/installation.md)")
    points = [point for each in slices for point in each.get("endpoints") or ()]
    ready = [point for point in points if (point.get("conditions") or {}).get("ready") is not False]
    if not ready:
        what = f"Service {where} has no ready address ({len(points)} in all), so no job can be created"
        yield diagnoses.error(CHECK, what, deployment.SEE_PODS.format(options.namespace, options.name))
    elif served >= set(ports):
        yield diagnoses.ok(CHECK, f"Service {where} has {len(ready)} ready address{'es' if len(ready) > 1 else ''}")
