"""Images of trainings and engines, which nobody pulls: the nodes have them, or the tests that need them are skipped."""

from __future__ import annotations

import os
from collections.abc import Collection

import pytest

from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl

__all__ = ["need"]

_FAKE = "kwok.x-k8s.io/node"


def need(kubectl: Kubectl, wanted: Collection[str]) -> None:
    """Ask for images: our own node tier must have them; in another cluster the test that asks is skipped.

    Args:
        kubectl: for the cluster.
        wanted: names of images, as pods ask for them.
    """

    def missing() -> set[str]:
        nodes = [node for node in kubectl.all("nodes") if _FAKE not in (node["metadata"].get("annotations") or {})]
        return set(wanted) - {
            name for node in nodes for each in node["status"].get("images") or () for name in each.get("names") or ()
        }

    if os.environ.get("MUSTER_E2E_TIER") == "node":
        # The kubelet reports its images at intervals.
        waits.until(f"the node to have {', '.join(wanted)} (`up --images`)", lambda: not missing(), 90)
    elif lacking := missing():
        pytest.skip(f"no node of this cluster has {', '.join(sorted(lacking))}")
