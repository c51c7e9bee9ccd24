"""KWOK: nodes without machines, whose pods run at once, for tests that need many nodes or pods that end on demand.

Upstream's stages complete every pod of a Job as soon as it runs; here every pod ends when its label says so, so that
a test can look at a running job. Only KWOK may end such a pod by its status: KWOK writes what it decided a moment
before, so a pod that something else ended in between would run again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import builds, processes
from e2e.cluster.places import Places
from e2e.cluster.sites import Site

__all__ = ["ENDS", "node", "stages", "start"]

ENDS = "e2e.muster.dev/ends"
"""The label of pods that succeed as soon as they run, with value "true"."""

_MODULE = "sigs.k8s.io/kwok"
_MANAGED = "kwok.x-k8s.io/node=fake"
_IS_TO_END = {"key": f'.metadata.labels["{ENDS}"]', "operator": "In", "values": ["true"]}


def start(places: Places, site: Site, binaries: Path) -> None:
    """Start KWOK; it manages nodes with the annotation of `node`, and their pods."""
    config = places.configs / "kwok.yaml"
    config.write_text(yaml.safe_dump_all(stages()))
    command = [
        *site.prefix,
        f"{binaries}/kwok",
        f"--kubeconfig={places.kubeconfig}",
        f"--config={config}",
        f"--manage-nodes-with-annotation-selector={_MANAGED}",
        "--node-lease-duration-seconds=40",
        "--cidr=10.0.0.1/24",
    ]
    processes.start(places, "kwok", command)


def node(name: str) -> dict[str, Any]:
    """A fake node of 64 CPUs, with a taint that keeps other pods away."""
    key, _, value = _MANAGED.partition("=")
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "500", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"type": "kwok"}, "annotations": {key: value}},
        "spec": {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def stages() -> list[dict[str, Any]]:
    """Upstream's stages of nodes and pods, with Muster's condition for the end of a pod."""
    folder = builds.module_folder("kubernetes", _MODULE) / "kustomize" / "stage"
    files = [
        *(folder / "pod" / "fast").glob("pod-*.yaml"),
        folder / "node" / "fast" / "node-initialize.yaml",
        folder / "node" / "heartbeat-with-lease" / "node-heartbeat-with-lease.yaml",
    ]
    stages = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(files)]
    for stage in stages:
        if stage["metadata"]["name"] == "pod-complete":
            selector = stage["spec"]["selector"]
            selector["matchExpressions"] = [*filter(_is_of_any_pod, selector["matchExpressions"]), _IS_TO_END]
    return stages


def _is_of_any_pod(expression: dict[str, Any]) -> bool:
    return "ownerReferences" not in expression["key"]
