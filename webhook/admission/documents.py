"""Documents of the cluster, read and checked: one by its name, the nodes of a role, the devices of claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import decoding
from muster.strategies.documents.findings import Finding
from muster.strategies.platform import devices, placements
from muster.webhook.admission import budgets
from muster.webhook.cluster import readers

__all__ = [
    "BeyondError",
    "Measured",
    "UnreadableError",
    "classes_of",
    "devices_by_request",
    "devices_of",
    "fewest_of",
    "holds_accelerators",
    "nodes",
    "read",
    "requests_of",
]


class UnreadableError(ValueError):
    """A document that governs the job does not have the shape of its kind; the message names field and value."""


class BeyondError(Exception):
    """A document of the cluster is beyond its budget, so it was not read.

    Attributes:
        ref: the document.
        finding: about a field of it.
    """

    def __init__(self, ref: readers.Ref, finding: Finding) -> None:
        super().__init__(f"{ref}: {finding}")
        self.ref = ref
        self.finding = finding

    @property
    def told(self) -> Finding:
        """The finding with the document before its field."""
        return dataclasses.replace(self.finding, field=f"{self.ref}: {self.finding.field}")


class Measured:
    """A reader for one decision that measures each document before anything else reads it.

    Args:
        cluster: has the documents.
        budget: what each may hold.
    """

    def __init__(self, cluster: readers.ClusterReader, budget: budgets.Budget) -> None:
        self._cluster = cluster
        self.trainer = readers.trainer_of(cluster)
        self._budget = budget
        self._within: dict[readers.Ref, readers.Document | None] = {}

    @property
    def whole(self) -> bool:
        """As the cluster's own."""
        return self._cluster.whole

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return a document within its budget, with the exceptions of the cluster's own `get`.

        A stored TrainJob has been measured when it was created, and has grown since then by what webhooks added.

        Raises:
            BeyondError: it is beyond it.
        """
        if ref in self._within:
            return self._within[ref]
        document = self._cluster.get(ref)
        budget = self._budget.wide if ref.kind == "TrainJob" else self._budget
        # Of a namespace, which authors of jobs cannot write, one label is read and nothing is walked.
        beyond = None if document is None or ref.kind == "Namespace" else budgets.check(document, budget)
        if beyond is not None:
            raise BeyondError(ref, beyond)
        self._within[ref] = document
        return document

    def every(self, kind: str, labels: readers.Labels) -> Iterable[readers.Document] | None:
        """Return the documents of a kind; those with more taints than a list may have are left out unread."""
        found = self._cluster.every(kind, labels)
        return None if found is None else (each for each in found if self._is_short(each))

    def _is_short(self, document: readers.Document) -> bool:
        spec = document.get("spec")
        taints = spec.get("taints") if isinstance(spec, dict) else None
        return not isinstance(taints, list) or len(taints) <= self._budget.entries


def read(ref: readers.Ref, cluster: readers.ClusterReader) -> Mapping[str, Any] | None:
    """Return a document of the cluster, checked for the shape of its kind; None when it does not exist.

    Raises:
        NotCached: the reader has to fetch it first.
        UnreadableError: it does not have the shape of its kind.
    """
    document = cluster.get(ref)
    misfits = [] if document is None else decoding.check(document, ref.kind)
    if misfits:
        raise UnreadableError(f"{ref}: {misfits[0]}; correct it")
    return document


def nodes(cluster: readers.ClusterReader, role: placements.Role) -> Iterator[placements.Node]:
    """Yield the role's nodes that have the shape of their kind, each read as it is taken.

    They come from the reader's memory; there are none while it does not hold all of them. A decision never waits for
    nodes, because they only lead to advice, and the scheduler decides.
    """
    for document in cluster.every("Node", role.node_labels) or ():
        if not decoding.check(document, "Node"):
            yield placements.node(document)


def requests_of(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the device requests of a ResourceClaim or a ResourceClaimTemplate (resource.k8s.io/v1)."""
    spec = document.get("spec") or {}
    inner = spec.get("spec") or {} if document.get("kind") == "ResourceClaimTemplate" else spec
    requests: Sequence[Mapping[str, Any]] = (inner.get("devices") or {}).get("requests") or ()
    return requests


def classes_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the device classes that a claim requests."""
    for wanted in requests_of(document):
        for option in _options(wanted):
            if option.get("deviceClassName"):
                yield str(option["deviceClassName"])


def holds_accelerators(document: Mapping[str, Any]) -> bool:
    """Whether a claim requests devices of a class that is certainly one of accelerators."""
    return any(devices.is_accelerator(name) for name in classes_of(document))


def devices_of(document: Mapping[str, Any], *, beside: bool = False) -> int | None:
    """Return the number of accelerators of one claim; None when the allocation decides it, or no name tells it.

    Network cards, CPUs and the like are left out. Devices of a class whose name says nothing are taken for accelerators
    where nothing else is claimed, and are of unknown number beside a class that is certainly one. MIG slices count as
    one together, because CUDA shows a process one of them; see `slices_of`.

    Args:
        document: a ResourceClaim or a ResourceClaimTemplate.
        beside: whether other claims of the pod hold accelerators.
    """
    return _together(requests_of(document), doubtful=beside or holds_accelerators(document))


def devices_by_request(document: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yield the name of each request of a claim with its number of accelerators, by the rules of `devices_of`."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for each in requests_of(document):
        if isinstance(each.get("name"), str):
            named.setdefault(each["name"], []).append(each)
    for name, requests in named.items():
        yield name, _together(requests, doubtful=False)


def _together(requests: Sequence[Mapping[str, Any]], *, doubtful: bool) -> int | None:
    counts = [_accelerators(each, doubtful=doubtful) for each in requests]
    if None in counts:
        return None
    sliced = [count or 0 for count, each in zip(counts, requests, strict=True) if _is_of_slices(each)]
    return sum(count or 0 for count in counts) - sum(sliced) + bool(sum(sliced))


def slices_of(document: Mapping[str, Any]) -> int:
    """Return the number of MIG slices of one claim, 0 where it is not known."""
    asked = [each for each in requests_of(document) if _is_of_slices(each)]
    return sum(_accelerators(each, doubtful=False) or 0 for each in asked)


def fewest_of(document: Mapping[str, Any]) -> int | None:
    """Return the fewest accelerators that the alternatives of a claim (`firstAvailable`) give, None where unknown."""
    doubtful = holds_accelerators(document)
    every = [[_count(option, doubtful=doubtful) for option in _options(each)] for each in requests_of(document)]
    if any(None in counts for counts in every):
        return None
    return sum(min(count or 0 for count in counts) for counts in every)


def _is_of_slices(wanted: Mapping[str, Any]) -> bool:
    classes = [str(each.get("deviceClassName") or "") for each in _options(wanted)]
    return bool(classes) and all(devices.is_slice_class(each) for each in classes)


def _accelerators(wanted: Mapping[str, Any], *, doubtful: bool) -> int | None:
    counts = {_count(option, doubtful=doubtful) for option in _options(wanted)}
    return counts.pop() if len(counts) == 1 else None


def _options(wanted: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return what one request may become; in v1beta1 its members stand beside the name."""
    options: Sequence[Mapping[str, Any]] = wanted.get("firstAvailable") or [wanted.get("exactly") or wanted]
    return options


def _count(option: Mapping[str, Any], *, doubtful: bool) -> int | None:
    """Return the count of one request: 1, the default of the API, when it is not set; None for all devices.

    A negative one, which the API server refuses, counts as unknown: nothing may be written that follows from it.
    """
    kind, count = devices.is_accelerator(str(option.get("deviceClassName") or "")), option.get("count")
    if kind is False:
        return 0
    if option.get("allocationMode") == "All" or (kind is None and doubtful):
        return None
    if count is None:
        return 1
    return None if count < 0 else int(count)
