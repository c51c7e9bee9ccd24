"""KWOK in a pod, from its own manifests in the Go module cache, with the stages that the suites count on.

The cluster without Docker runs the same KWOK as a process (`e2e.cluster.kwok`); stages and fake nodes are its.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from e2e.cluster import builds, kwok, upstream
from e2e.cluster.errors import ClusterError

__all__ = ["documents", "nodes"]

_MODULE = "sigs.k8s.io/kwok"
# As flags, like the process has them: in a KwokConfiguration what is left out would be zero and not its default.
_FLAGS = (
    "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
    "--node-lease-duration-seconds=40",
    "--cidr=10.0.0.1/24",
)


def documents(kubectl: Path) -> list[upstream.Document]:
    """Everything that installs KWOK.

    Raises:
        ClusterError: the manifests do not have the expected form.
    """
    rendered = upstream.kustomize(kubectl, builds.module_folder("kubernetes", _MODULE) / "kustomize" / "kwok")
    for document in rendered:
        if document["kind"] == "ConfigMap":
            document["data"] = {"kwok.yaml": yaml.safe_dump_all(kwok.stages(), sort_keys=False)}
        elif document["kind"] == "Deployment":
            _set_container(document["spec"]["template"]["spec"]["containers"][0])
    if not any(document["kind"] == "ConfigMap" for document in rendered):
        raise ClusterError(f"{_MODULE}: kustomize/kwok contains no ConfigMap; its stages cannot be set")
    return rendered


def nodes() -> list[upstream.Document]:
    """The two fake nodes that every cluster of the suites has."""
    return [kwok.node("kwok-0"), kwok.node("kwok-1")]


def _set_container(container: upstream.Document) -> None:
    # Its own say where the stages are; the port is that of its probes.
    container["args"] = [*container["args"], "--node-port=10247", *_FLAGS]
    container["image"] = f"{container['image'].partition(':')[0]}:{builds.version('kubernetes', _MODULE)}"
