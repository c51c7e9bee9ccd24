"""These tests need nodes that run containers; KWOK's only pretend to. Some also need nodes that offer GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.suites.support.kubectls import Kubectl

_FAKE = "kwok.x-k8s.io/node"
_GPU = "nvidia.com/gpu"


@pytest.fixture(scope="session", autouse=True)
def real_nodes(kubectl: Kubectl) -> list[dict[str, Any]]:
    """The cluster's nodes that run containers; skips where there is none."""
    found = [node for node in kubectl.all("nodes") if _FAKE not in (node["metadata"].get("annotations") or {})]
    if not found:
        pytest.skip("this cluster has no node that runs containers; the node tier and kind have one")
    return found


@pytest.fixture
def gpus(real_nodes: list[dict[str, Any]]) -> str:
    """The name of a resource that two pods can ask for at once; skips where no node offers it."""
    if not any(int(node["status"]["allocatable"].get(_GPU, "0")) >= 2 for node in real_nodes):
        pytest.skip(f"no node of this cluster offers two {_GPU}; the node tier's offers some that it does not have")
    return _GPU
