"""Pools: fake nodes for trainers and for samplers, with devices, and a configuration of Muster that names them.

Pods of the fixtures tolerate the cluster's own KWOK nodes and select by a label that those of a pool have as well: so
there is always another node that is free, and only the role keeps a pod off it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from e2e.suites.claims import jobs
from e2e.suites.support import devices, documents, spaces
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = [
    "DRIVER",
    "HOST",
    "POOL",
    "ROLE",
    "SESSION",
    "configuration",
    "nodes",
    "occupied",
    "places",
    "refitted",
    "sampler",
    "template",
    "toleration",
    "trainer",
]

ROLE = "muster.dev/role"
POOL = "e2e.muster.dev/pool"
HOST = "kubernetes.io/hostname"
DRIVER = "pools.e2e.muster.dev"
SESSION = "16Gi"
_GPUS = 8
_PATIENCE = 90  # the kubelet takes up to a minute to update a file in Muster's pod


def configuration() -> dict[str, Any]:
    """Muster's configuration: each role has its pool, and may run in the pool `both`."""
    roles: dict[str, Any] = {
        role: {
            "nodeLabels": {POOL: [role, "both"]},
            "tolerations": [toleration(role), toleration("both")],
            "apart": True,
        }
        for role in ("trainer", "sampler")
    }
    roles["trainer"]["profile"] = "whole"
    roles["sampler"]["spread"] = HOST
    shared = {"sharing": "shared", "claims": 1, "maxSessions": 4}
    profiles = {
        "whole": {"deviceClass": DRIVER},
        "session": {"deviceClass": DRIVER, "memory": SESSION},
        "seat": {"deviceClass": DRIVER, **shared},
    }
    return {"roles": roles, "profiles": profiles, "controllers": jobs.CONTROLLERS}


def toleration(pool: str) -> dict[str, str]:
    """A toleration of the taint of a pool."""
    return {"key": POOL, "operator": "Equal", "value": pool, "effect": "NoSchedule"}


@contextmanager
def nodes(kubectl: Kubectl, pool: str, *names: str, memory: str = "48Gi") -> Iterator[tuple[str, ...]]:
    """Nodes of a pool with eight devices each; they are removed afterwards, also when the test failed."""
    slices = [devices.slice_of(name, DRIVER, name, ({"name": f"gpu-{at}"} for at in range(_GPUS))) for name in names]
    try:
        kubectl.apply(*(_node(name, pool, memory) for name in names), *slices).expect()
        until(f"{', '.join(names)} to be ready", lambda: all(_is_ready(kubectl, name) for name in names), 60)
        yield names
    finally:
        try:
            until(f"no pod to be on {', '.join(names)}", lambda: not occupied(kubectl, *names), 60)
        finally:
            for kind in ("nodes", "resourceslices"):
                kubectl.run("delete", kind, *names, "--ignore-not-found", "--wait=false").expect()
            until(f"{', '.join(names)} to be gone", lambda: not _left(kubectl, *names), 60)


@contextmanager
def refitted(
    space: Space, installation: Installation, roles: Mapping[str, Any], shown: Mapping[str, Any]
) -> Iterator[None]:
    """Muster with members of roles changed, once the change is in force; afterwards as before.

    Args:
        space: the namespace of the dry runs.
        installation: Muster.
        roles: what changes of `roles`, by role.
        shown: members that the affinity of a sampler has meanwhile, and does not have before and after.
    """

    def goes_by() -> bool:
        answer = space.create(sampler("asks"), dry_run=True, options=("-o", "json")).expect().json
        affinity: Mapping[str, Any] = template(answer)["spec"].get("affinity") or {}
        return all(affinity.get(key) == value for key, value in shown.items())

    try:
        with installation.reloaded({"roles": roles}):
            until("Muster to use the changed roles", goes_by, _PATIENCE)
            yield
    finally:
        until("Muster to use the former roles again", lambda: not goes_by(), _PATIENCE)


def trainer(name: str, nodes: int = 2, **more: Any) -> dict[str, Any]:
    """A TrainJob of role trainer, of the runtime `torch`."""
    return documents.trainjob(name, "torch", trainer={"numNodes": nodes}, labels={ROLE: "trainer"}, **more)


def sampler(
    name: str, pods: int = 1, *, role: str | None = "sampler", pod: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A JobSet of role sampler, of another role or of none; `pod` has further members of its pods' spec."""
    job = documents.jobset(name, None, nodes=pods, labels={ROLE: role} if role else None, **more)
    template(job)["spec"].update(pod or {})
    return job


def template(jobset: Mapping[str, Any]) -> dict[str, Any]:
    """The pod template of a JobSet's first replicated job."""
    found: dict[str, Any] = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return found


def places(space: Space, job: str, count: int) -> Counter[str]:
    """Wait until all pods of a job have a node; return how many are on each."""

    def look() -> Counter[str]:
        found = [space.get("pods", name) or {} for name in jobs.pods(space, job, count)]
        assert all("nodeName" in pod["spec"] for pod in found), [pod["status"].get("conditions") for pod in found]
        return Counter(pod["spec"]["nodeName"] for pod in found)

    return until(f"the pods of {space.name}/{job} to have nodes", look, 60)


def occupied(kubectl: Kubectl, *names: str) -> list[str]:
    """The pods on some nodes, of all namespaces, as `namespace/name`."""
    found = kubectl.run("get", "pods", "-A", "-o", "json").expect().json["items"]
    return ["{namespace}/{name}".format(**each["metadata"]) for each in found if each["spec"].get("nodeName") in names]


def _is_ready(kubectl: Kubectl, name: str) -> bool:
    node = kubectl.get("nodes", name) or {}
    taints = node.get("spec", {}).get("taints") or ()
    is_kept = any(each["key"].startswith("node.kubernetes.io/") for each in taints)
    return spaces.conditions(node).get("Ready") == "True" and not is_kept


def _left(kubectl: Kubectl, *names: str) -> list[str]:
    return [f"{kind}/{name}" for kind in ("nodes", "resourceslices") for name in names if kubectl.get(kind, name)]


def _node(name: str, pool: str, memory: str) -> dict[str, Any]:
    room = {"cpu": "64", "memory": memory, "pods": "100"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {POOL: pool, HOST: name, **documents.FAKE["nodeSelector"]},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [{"key": POOL, "value": pool, "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }
