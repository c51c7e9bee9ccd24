"""Starts a pod with the guard on each node, so that no training waits for a volume or an image that a node cannot have.

The pods are made as a training's are (`guard_additions.equip`), with Muster's own image in the place of the training's:
its Python ends with 0 where it has loaded the guard from the mounted folder. They are deleted again, and end by
themselves where this process ends first. Control plane nodes that keep pods off are left out.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from muster.kube import transports
from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names, pods
from muster.strategies.documents.decoding import items, member
from muster.strategies.launches import guard_additions
from muster.strategies.launches.guard_additions import Guard
from muster.webhook.doctor.diagnoses import Diagnosis, error, ok, unknown, warning
from muster.webhook.doctor.live_installation import Document, Installation

__all__ = ["NODES", "trial"]

NODES = "/api/v1/nodes"
_MOST = 100  # nodes, of which each gets one pod
_SHOWN = 5  # nodes of one reason
_PAUSE = 1.0  # seconds between two looks at a pod
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_LOADED = (
    "import sys; found = getattr(sys.modules.get('muster_guard'), '__file__', None);"
    f" sys.exit(None if (found or '').startswith('{guard_additions.MOUNTED_AT}/') else f'Python loaded {{found}}')"
)
_TODO = "trainings with the guard would wait or fail there; leave guard.inject at never until this is mended"


class _Outcome(NamedTuple):
    """What became of the pod on a node: why it did not load the guard, "" where it did, and after how many seconds."""

    node: str
    why: str
    seconds: float


async def trial(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Start the pods where somebody asked for it, and wait until each has ended or the deadline is over."""
    if not installation.options.guard:
        return
    options, settings = installation.options, (await installation.configured()).guard
    deployed = await _deployed(installation)
    guard = Guard("always", settings.mount, settings.image or deployed)
    if not guard.image:
        yield unknown("neither guard.image nor the Deployment names an image", "set guard.image in the configuration")
        return
    nodes = [_name(each) for each in await installation.list(NODES) if _is_for_trainings(each)]
    if not nodes:
        yield unknown("there is no ready node on which trainings could run", "look at `kubectl get nodes`")
        return
    tried = await asyncio.gather(*(_tried(installation, guard, node) for node in nodes[:_MOST]))
    for why in dict.fromkeys(each.why for each in tried):
        outcomes = [each for each in tried if each.why == why]
        if why:
            where = f"{_nodes(outcomes)} in namespace {options.probe_namespace}"
            yield error(f"the guard does not start on {where}: {why}", _TODO)
        else:
            slowest = max(each.seconds for each in outcomes)
            what = f"the guard ({settings.mount}) starts on {_nodes(outcomes)}, within {slowest:.0f} s"
            yield ok(what, nodes=float(len(outcomes)), slowestSeconds=round(slowest, 3))
    if len(nodes) > _MOST:
        yield unknown(f"{len(nodes) - _MOST} further nodes were not tried", f"the trial stops at {_MOST} nodes")
    if settings.image and settings.image != deployed:
        what = f"guard.image is {settings.image}, and the Deployment runs {deployed}"
        yield warning(what, "change guard.image with each upgrade, unless both are the same image")


async def _deployed(installation: Installation) -> str:
    """Return the image of Muster's Deployment, "" where it has none."""
    options = installation.options
    found = await installation.get(f"/apis/apps/v1/namespaces/{options.namespace}/deployments/{options.name}")
    containers = items(member(found, "spec", "template", "spec"), "containers")
    return str(containers[0].get("image", "")) if containers else ""


def _name(document: Document) -> str:
    return str(member(document, "metadata").get("name", ""))


def _is_for_trainings(node: Document) -> bool:
    conditions, spec = items(member(node, "status"), "conditions"), member(node, "spec")
    ready = any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions)
    kept_off = any(each.get("key") == _CONTROL_PLANE for each in items(spec, "taints"))
    windows = member(node, "metadata", "labels").get("kubernetes.io/os") == "windows"
    return ready and not kept_off and not windows and not spec.get("unschedulable")


def _nodes(outcomes: list[_Outcome]) -> str:
    shown = ", ".join(each.node for each in outcomes[:_SHOWN])
    more = f" and {len(outcomes) - _SHOWN} more" if len(outcomes) > _SHOWN else ""
    return f"{'node' if len(outcomes) == 1 else f'{len(outcomes)} nodes:'} {shown}{more}"


async def _tried(installation: Installation, guard: Guard, node: str) -> _Outcome:
    """Start a pod on a node, wait for its end, and delete it."""
    begun = time.monotonic()
    path, pod = f"/api/v1/namespaces/{installation.options.probe_namespace}/pods", _pod(installation, guard, node)
    try:
        await installation.create(path, pod)
    except transports.TransportError as refused:
        return _Outcome(node, f"its pod is refused: {refused}", time.monotonic() - begun)
    path = f"{path}/{_name(pod)}"
    try:
        why = await _ended(installation, path, begun + installation.options.guard_deadline)
    except transports.TransportError as failed:
        why = f"its pod cannot be read: {failed}"
    seconds = time.monotonic() - begun
    try:
        await installation.delete(path)
    except transports.TransportError as failed:
        why = why or f"it does, but pod {_name(pod)} cannot be deleted: {failed}"
    return _Outcome(node, why, seconds)


async def _ended(installation: Installation, path: str, deadline: float) -> str:
    """Wait for the end of a pod; return why it did not load the guard, "" where it did."""
    while True:
        status = member(await installation.current(path), "status")
        if status.get("phase") == "Succeeded":
            return ""
        if status.get("phase") == "Failed":
            return _why(status)
        if time.monotonic() > deadline:
            return f"not within {installation.options.guard_deadline:g} s; {_why(status)}"
        await asyncio.sleep(_PAUSE)


def _why(status: Mapping[str, object]) -> str:
    """Return what the kubelet says of the container that waits or failed, else of the pod."""
    for each in (*items(status, "initContainerStatuses"), *items(status, "containerStatuses")):
        state = member(each, "state")
        told = member(state, "waiting") or member(state, "terminated")
        if told.get("reason") not in (None, "Completed", "PodInitializing"):
            return f"container {each.get('name')}: {told['reason']} {told.get('message', '')}".rstrip()
    conditions = [each for each in items(status, "conditions") if each.get("status") == "False" and each.get("message")]
    told = conditions[0] if conditions else status
    return str(told.get("message") or "the kubelet does not say why")


def _pod(installation: Installation, guard: Guard, node: str) -> Document:
    """Return a pod of one container that has the guard; it passes Pod Security `restricted`, and no taint stops it."""
    user = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": names.CONTAINER_NODE,
        "image": guard.image,
        "command": ["python3", "-c", _LOADED],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "securityContext": {
            **user,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": int(installation.options.guard_deadline) + 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    jobset = {"spec": {"replicatedJobs": [{"name": "trial", "template": {"spec": {"template": {"spec": spec}}}}]}}
    changes = Changes(jobset)
    place = pods.place(jobset, ("spec", "replicatedJobs", 0), 0)
    guard_additions.equip(place, changes, guard, "report")
    labels = {"app.kubernetes.io/name": "muster-doctor"}
    metadata = {"name": f"muster-doctor-guard-{secrets.token_hex(4)}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": changes.get(*place.pod_path)}
