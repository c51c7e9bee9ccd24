"""These tests need nodes that run containers; KWOK's only pretend to."""

from __future__ import annotations

import pytest

from e2e.suites.support.kubectls import Kubectl


@pytest.fixture(scope="session", autouse=True)
def real_nodes(kubectl: Kubectl) -> list[str]:
    """Names of the cluster's nodes that run containers; skips where there is none."""
    fake = "kwok.x-k8s.io/node"
    found = [node["metadata"] for node in kubectl.all("nodes")]
    names = [each["name"] for each in found if fake not in (each.get("annotations") or {})]
    if not names:
        pytest.skip("this cluster has no node that runs containers; the node tier has one, and so has kind")
    return names
