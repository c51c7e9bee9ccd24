"""Whether somebody answers: the Deployment, its disruption budget, the Service and what is behind it.

Where webhook entries call a URL, Muster is not behind a Service of this cluster, and nothing of this is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.doctor import diagnoses, selectors
from webhook.doctor.checks import webhooks
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Document, Installation, Options
from webhook.doctor.permissions import Need

__all__ = [
    "DEPLOYMENT",
    "SERVICE",
    "deployment",
    "deployment_needs",
    "deployment_path",
    "is_elsewhere",
    "judge_deployment",
    "judge_service",
    "service",
    "service_needs",
]

DEPLOYMENT = "deployment"
SERVICE = "service"
_PODS = "see `kubectl -n {0} get pods,events` and `kubectl -n {0} logs deployment/{1}`"
_ELSEWHERE = "the webhook entries call a URL, so Muster is not behind a Service of this cluster"


def deployment_needs(options: Options) -> tuple[Need, ...]:
    """To read the Deployment and the disruption budgets."""
    return (
        Need("get", "deployments", "apps", options.namespace, options.name),
        Need("list", "poddisruptionbudgets", "policy", options.namespace),
    )


def service_needs(options: Options) -> tuple[Need, ...]:
    """To read the Service and what is behind it."""
    return (
        Need("get", "services", "", options.namespace, options.name),
        Need("list", "endpointslices", "discovery.k8s.io", options.namespace),
        *webhooks.needs(options),
    )


async def is_elsewhere(installation: Installation) -> bool:
    """Whether all webhook entries call URLs.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    live = await webhooks.all_of(installation)
    return bool(live) and all(webhooks.url_of(entry) for _, entry in live)


def deployment_path(options: Options) -> str:
    """Return the path of the Deployment."""
    return f"/apis/apps/v1/namespaces/{options.namespace}/deployments/{options.name}"


async def deployment(installation: Installation) -> list[Diagnosis]:
    """Look at replicas and at what a drain may do to them.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    found = await installation.get(deployment_path(installation.options))
    if found is None and await is_elsewhere(installation):
        return [diagnoses.ok(DEPLOYMENT, _ELSEWHERE)]
    budgets = await installation.list(
        f"/apis/policy/v1/namespaces/{installation.options.namespace}/poddisruptionbudgets"
    )
    return list(judge_deployment(found, budgets, installation.options))


def judge_deployment(found: Document | None, budgets: Iterable[Document], options: Options) -> Iterator[Diagnosis]:
    """Yield what is so with the Deployment."""
    where = f"{options.namespace}/{options.name}"
    if found is None:
        what = f"Deployment {where} does not exist, so nobody answers the API server"
        yield diagnoses.error(DEPLOYMENT, what, "install Muster, or name its namespace and name (--namespace, --name)")
        return
    wanted, status = int(found["spec"].get("replicas", 1)), found.get("status") or {}
    ready, current = int(status.get("readyReplicas") or 0), int(status.get("updatedReplicas") or 0)
    todo = _PODS.format(options.namespace, options.name)
    if not wanted:
        what = f"Deployment {where} is scaled to no replica, so no job can be created"
        yield diagnoses.error(
            DEPLOYMENT, what, f"kubectl -n {options.namespace} scale deployment {options.name} --replicas=2"
        )
        return
    if not ready:
        yield diagnoses.error(DEPLOYMENT, f"no replica of {wanted} is ready, so no job can be created", todo)
    elif ready < wanted:
        yield diagnoses.warning(DEPLOYMENT, f"{ready} of {wanted} replicas are ready", todo)
    if ready and current < wanted:
        yield diagnoses.warning(DEPLOYMENT, f"{current} of {wanted} replicas are of the newest version", todo)
    if wanted == 1:
        what = "there is one replica: while its node is drained or lost no job can be created"
        yield diagnoses.warning(DEPLOYMENT, what, "run two (docs/installation.md)")
        return
    if ready == wanted == current:
        yield diagnoses.ok(DEPLOYMENT, f"{ready} of {wanted} replicas are ready")
    yield from _budgeted(found, budgets, wanted)


def _budgeted(found: Document, budgets: Iterable[Document], wanted: int) -> Iterator[Diagnosis]:
    labels = found["spec"]["template"]["metadata"].get("labels") or {}
    chosen = [(each, each["spec"].get("selector")) for each in budgets]
    ours = [each for each, selector in chosen if selector is not None and selectors.selects(selector, labels)]
    if not ours:
        what = f"no PodDisruptionBudget covers the {wanted} replicas, so a drain may take all of them at once"
        yield diagnoses.warning(DEPLOYMENT, what, "add one with maxUnavailable 1 (docs/installation.md)")
    for each in ours:
        status: Mapping[str, Any] = each.get("status") or {}
        healthy, enough = int(status.get("currentHealthy") or 0), int(status.get("expectedPods") or wanted)
        if healthy >= enough and not status.get("disruptionsAllowed"):
            what = f"PodDisruptionBudget {each['metadata']['name']} lets no replica go, so nodes cannot be drained"
            yield diagnoses.warning(DEPLOYMENT, what, "set maxUnavailable 1 there")


async def service(installation: Installation) -> list[Diagnosis]:
    """Look at the Service and its addresses.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    options = installation.options
    found = await installation.get(f"/api/v1/namespaces/{options.namespace}/services/{options.name}")
    if await is_elsewhere(installation):
        return [diagnoses.ok(SERVICE, _ELSEWHERE)]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{options.namespace}/endpointslices"
    slices = await installation.list(path, labelSelector=f"kubernetes.io/service-name={options.name}")
    called = [
        (entry.get("clientConfig") or {}).get("service") or {} for _, entry in await webhooks.all_of(installation)
    ]
    return list(judge_service(found, slices, {int(each.get("port") or 443) for each in called}, options))


def judge_service(
    found: Document | None, slices: Iterable[Document], ports: Iterable[int], options: Options
) -> Iterator[Diagnosis]:
    """Yield what is so with the Service; `ports` are those that webhook entries call."""
    where = f"{options.namespace}/{options.name}"
    if found is None:
        what = f"Service {where} does not exist, so the API server cannot reach Muster"
        yield diagnoses.error(SERVICE, what, "install again (docs/installation.md)")
        return
    served = {int(port["port"]) for port in found["spec"].get("ports") or ()}
    for port in sorted(set(ports) - served):
        what = f"webhook entries call port {port}, and Service {where} has {', '.join(map(str, sorted(served)))}"
        yield diagnoses.error(SERVICE, what, "install again (docs/installation.md)")
    points = [point for each in slices for point in each.get("endpoints") or ()]
    ready = [point for point in points if (point.get("conditions") or {}).get("ready") is not False]
    if not ready:
        what = f"Service {where} has no ready address of {len(points)}, so no job can be created"
        yield diagnoses.error(SERVICE, what, _PODS.format(options.namespace, options.name))
    elif served >= set(ports):
        yield diagnoses.ok(SERVICE, f"Service {where} has {len(ready)} ready address{'es' if len(ready) > 1 else ''}")
