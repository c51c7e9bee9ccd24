"""Checks that Muster runs: the Deployment, its replicas, and the PodDisruptionBudget.

When the webhook entries have a URL, Muster is not behind a Service of this cluster, and this check is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.webhook.doctor import diagnoses, selectors
from muster.webhook.doctor.checks import webhooks
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "SEE_PODS", "judge", "look", "needs", "path"]

CHECK = "deployment"
SEE_PODS = "see `kubectl -n {0} get pods,events` and `kubectl -n {0} logs deployment/{1}`"
"""What to do about replicas that do not answer; format it with Muster's namespace and name."""


def needs(options: Options) -> tuple[Need, ...]:
    """Return the permissions to read the Deployment and the PodDisruptionBudgets."""
    return (
        Need("get", "deployments", "apps", options.namespace, options.name),
        Need("list", "poddisruptionbudgets", "policy", options.namespace),
    )


def path(options: Options) -> str:
    """Return the path of the Deployment in the API."""
    return f"/apis/apps/v1/namespaces/{options.namespace}/deployments/{options.name}"


async def look(installation: Installation) -> list[Diagnosis]:
    """Read the Deployment and the PodDisruptionBudgets.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    found = await installation.get(path(installation.options))
    if found is None and await webhooks.is_elsewhere(installation):
        return [diagnoses.ok(CHECK, webhooks.ELSEWHERE)]
    budgets = await installation.list(
        f"/apis/policy/v1/namespaces/{installation.options.namespace}/poddisruptionbudgets"
    )
    return list(judge(found, budgets, installation.options))


def judge(found: Document | None, budgets: Iterable[Document], options: Options) -> Iterator[Diagnosis]:
    """Yield diagnoses of the Deployment."""
    where = f"{options.namespace}/{options.name}"
    if found is None:
        what = f"Deployment {where} does not exist, so Muster does not answer the API server"
        yield diagnoses.error(CHECK, what, "install Muster, or name its namespace and name (--namespace, --name)")
        return
    wanted, status = int(found["spec"].get("replicas", 1)), found.get("status") or {}
    ready, current = int(status.get("readyReplicas") or 0), int(status.get("updatedReplicas") or 0)
    todo = SEE_PODS.format(options.namespace, options.name)
    if not wanted:
        what = f"Deployment {where} is scaled to 0 replicas, so no job can be created"
        yield diagnoses.error(
            CHECK, what, f"kubectl -n {options.namespace} scale deployment {options.name} --replicas=2"
        )
        return
    if not ready:
        yield diagnoses.error(CHECK, f"none of the {wanted} replicas is ready, so no job can be created", todo)
    elif ready < wanted:
        yield diagnoses.warning(CHECK, f"{ready} of {wanted} replicas are ready", todo)
    if ready and current < wanted:
        yield diagnoses.warning(CHECK, f"{current} of {wanted} replicas are of the newest version", todo)
    if wanted == 1:
        what = "there is only one replica: while its Kubernetes node is drained or lost, no job can be created"
        yield diagnoses.warning(CHECK, what, "run two replicas (docs/installation.md)")
        return
    if ready == wanted == current:
        yield diagnoses.ok(CHECK, f"{ready} of {wanted} replicas are ready")
    yield from _budgeted(found, budgets, wanted)


def _budgeted(found: Document, budgets: Iterable[Document], wanted: int) -> Iterator[Diagnosis]:
    labels = found["spec"]["template"]["metadata"].get("labels") or {}
    chosen = [(each, each["spec"].get("selector")) for each in budgets]
    ours = [each for each, selector in chosen if selector is not None and selectors.selects(selector, labels)]
    if not ours:
        what = f"no PodDisruptionBudget covers the {wanted} replicas, so a drain may take all of them at once"
        yield diagnoses.warning(CHECK, what, "add one with maxUnavailable 1 (docs/installation.md)")
    for each in ours:
        status: Mapping[str, Any] = each.get("status") or {}
        healthy, enough = int(status.get("currentHealthy") or 0), int(status.get("expectedPods") or wanted)
        if healthy >= enough and not status.get("disruptionsAllowed"):
            name = each["metadata"]["name"]
            what = f"PodDisruptionBudget {name} allows no disruption, so Kubernetes nodes cannot be drained"
            yield diagnoses.warning(CHECK, what, "set maxUnavailable 1 there")
