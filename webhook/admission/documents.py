"""Documents of the cluster, read and checked: one by its name, the nodes of a role, the devices of claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strategies.documents import shapes
from strategies.platform import placements
from webhook.cluster import readers

__all__ = ["UnreadableError", "devices_of", "nodes", "read", "requests_of"]


class UnreadableError(ValueError):
    """A document that governs the job does not have the shape of its kind; the message names field and value."""


def read(ref: readers.Ref, cluster: readers.ClusterReader) -> Mapping[str, Any] | None:
    """Return a document of the cluster, checked for the shape of its kind; None when it does not exist.

    Raises:
        NotCached: the reader has to fetch it first.
        UnreadableError: it does not have the shape of its kind.
    """
    document = cluster.get(ref)
    misfits = [] if document is None else shapes.check(document, ref.kind)
    if misfits:
        raise UnreadableError(f"{ref}: {misfits[0]}; correct it")
    return document


def nodes(cluster: readers.ClusterReader, role: placements.Role) -> Iterator[placements.Node]:
    """Yield the role's nodes that have the shape of their kind, each read as it is taken.

    They come from the reader's memory; there are none while it does not hold all of them. A decision never waits for
    nodes, because they only lead to advice, and the scheduler decides.
    """
    for document in cluster.every("Node", role.node_labels) or ():
        if not shapes.check(document, "Node"):
            yield placements.node(document)


def requests_of(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the device requests of a ResourceClaim or a ResourceClaimTemplate (resource.k8s.io/v1)."""
    spec = document.get("spec") or {}
    inner = spec.get("spec") or {} if document.get("kind") == "ResourceClaimTemplate" else spec
    requests: Sequence[Mapping[str, Any]] = (inner.get("devices") or {}).get("requests") or ()
    return requests


def devices_of(document: Mapping[str, Any]) -> int | None:
    """Return the number of devices of one claim; None when the allocation decides it."""
    total = 0
    for wanted in requests_of(document):
        counts = {_count(option) for option in (wanted.get("firstAvailable") or [wanted.get("exactly") or {}])}
        if len(counts) != 1 or None in counts:
            return None
        total += counts.pop() or 0
    return total


def _count(request: Mapping[str, Any]) -> int | None:
    """Return the count of one request: 1, the default of the API, when it is not set; None for all devices."""
    count = request.get("count")
    return None if request.get("allocationMode") == "All" else 1 if count is None else int(count)
