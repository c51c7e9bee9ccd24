"""Fixtures of the scale suite: the fake nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.suites.support.documents import FAKE
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.waits import until

NODES = 200
_LABEL = "e2e.muster.dev/scale"
_ROOM = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}


@pytest.fixture(scope="session")
def nodes(kubectl: Kubectl) -> Iterator[int]:
    """Fake nodes, ready; gone afterwards. Where nobody plays them, the test is skipped."""
    if not kubectl.all("nodes", selector="type=kwok"):
        pytest.skip("this cluster has no KWOK (no node with the label type=kwok), which runs the 200 fake nodes")
    kubectl.create(*(_node(f"scale-{number}") for number in range(NODES))).expect()
    try:
        until(f"{NODES} fake nodes to be ready", lambda: len(_ready(kubectl)) == NODES, 90)
        yield NODES
    finally:
        kubectl.run("delete", "nodes", "-l", f"{_LABEL}=true", "--wait=false").expect()


def _node(name: str) -> dict[str, Any]:
    """A node for KWOK to play."""
    labels = {_LABEL: "true", "kubernetes.io/hostname": name, **FAKE["nodeSelector"]}
    taints = [{key: each[key] for key in ("key", "value", "effect")} for each in FAKE["tolerations"]]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": taints},
        "status": {"capacity": _ROOM, "allocatable": _ROOM},
    }


def _ready(kubectl: Kubectl) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in kubectl.all("nodes", selector=f"{_LABEL}=true")
        for condition in node["status"].get("conditions", ())
        if (condition["type"], condition["status"]) == ("Ready", "True")
    ]
