"""Documents of the cluster, read and checked; and how many devices the claims among them ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strategies.documents import shapes
from webhook.cluster import readers

__all__ = ["UnreadableError", "devices_of", "read", "requests_of"]


class UnreadableError(ValueError):
    """A document that governs the job has not the shape of its kind; the message names it, the field and the value."""


def read(ref: readers.Ref, cluster: readers.ClusterReader) -> Mapping[str, Any] | None:
    """Return a document that has the shape of its kind, None when it does not exist.

    Raises:
        NotCached: the reader has to fetch it first.
        UnreadableError: it has another shape.
    """
    document = cluster.get(ref)
    misfits = [] if document is None else shapes.check(document, ref.kind)
    if misfits:
        raise UnreadableError(f"{ref}: {misfits[0]}; mend it")
    return document


def requests_of(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the device requests of a ResourceClaim or a ResourceClaimTemplate (resource.k8s.io/v1)."""
    spec = document.get("spec") or {}
    inner = spec.get("spec") or {} if document.get("kind") == "ResourceClaimTemplate" else spec
    requests: Sequence[Mapping[str, Any]] = (inner.get("devices") or {}).get("requests") or ()
    return requests


def devices_of(document: Mapping[str, Any]) -> int | None:
    """Return the devices of one claim; None where the allocation decides."""
    total = 0
    for wanted in requests_of(document):
        counts = {_count(option) for option in (wanted.get("firstAvailable") or [wanted.get("exactly") or {}])}
        if len(counts) != 1 or None in counts:
            return None
        total += counts.pop() or 0
    return total


def _count(request: Mapping[str, Any]) -> int | None:
    """Return the count of one request, the API's default where none is written."""
    count = request.get("count")
    return None if request.get("allocationMode") == "All" else 1 if count is None else int(count)
