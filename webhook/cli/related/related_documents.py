"""Inputs: all documents of one input, by their kind and namespace, and the kinds that are read beside a job."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, field

from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.model import Amounts, Quantity, Selector, Texts
from muster.strategies.launches.networks import Opened
from muster.webhook.kubeyaml.sources import Origin, Source

__all__ = [
    "ClusterQueue",
    "ComputeDomain",
    "ConfigMap",
    "Given",
    "Inputs",
    "LocalQueue",
    "NetworkPolicy",
    "Payload",
    "PersistentVolumeClaim",
    "PodGroup",
    "PolicyRule",
    "ResourceQuota",
    "Secret",
    "Service",
]

Payload: TypeAlias = Mapping[str, str | None]
"""The keys of an object, with their texts; None for what is not a text, or is encoded."""


class _Object(Struct, frozen=True, rename="camel"):
    """A document beside a job, or a part of one; members that nothing here reads are left out."""


class ConfigMap(_Object, frozen=True, dict=True):
    """A ConfigMap; a value may be of a wrong type, and its key is there all the same."""

    data: dict[str, object] = {}
    binary_data: dict[str, object] = {}

    @functools.cached_property
    def payload(self) -> Payload:
        """What it holds."""
        return _payload(self.data, self.binary_data)


class Secret(_Object, frozen=True, dict=True):
    """A Secret."""

    string_data: dict[str, object] = {}
    data: dict[str, object] = {}

    @functools.cached_property
    def payload(self) -> Payload:
        """What it holds."""
        return _payload(self.string_data, self.data)


def _payload(texts: Mapping[str, object], encoded: Mapping[str, object]) -> Payload:
    written = {key: text if isinstance(text, str) else None for key, text in texts.items()}
    return {**dict.fromkeys(encoded), **written}


class PersistentVolumeClaim(_Object, frozen=True):
    """`spec` of a claim for a volume."""

    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""


class _ServicePort(_Object, frozen=True):
    port: int | str | None = None
    target_port: int | str | None = None


class Service(_Object, frozen=True):
    """`spec` of a Service."""

    cluster_ip: str = field(name="clusterIP", default="")
    type: str = ""
    selector: Texts = {}
    ports: tuple[_ServicePort, ...] = ()


class _PolicyPort(_Object, frozen=True):
    port: int | str | None = None
    end_port: int | None = None


class _Peer(_Object, frozen=True):
    ip_block: model.Anything | None = None
    pod_selector: Selector | None = None


class PolicyRule(_Object, frozen=True):
    """A rule of a NetworkPolicy, with peers on the one side or on the other."""

    ports: tuple[_PolicyPort, ...] = ()
    sources: tuple[_Peer, ...] = field(name="from", default=())
    targets: tuple[_Peer, ...] = field(name="to", default=())

    @property
    def peers(self) -> Sequence[_Peer]:
        """Who may reach the pods, or whom they may reach."""
        return self.sources or self.targets


class NetworkPolicy(_Object, frozen=True):
    """`spec` of a NetworkPolicy."""

    pod_selector: Selector = Selector()
    policy_types: tuple[str, ...] = ()
    ingress: tuple[PolicyRule, ...] = ()
    egress: tuple[PolicyRule, ...] | None = None

    def rules(self, side: str) -> Sequence[PolicyRule]:
        """Return the rules of `ingress` or `egress`."""
        if side == "ingress":
            return self.ingress
        return () if self.egress is None else self.egress


class ResourceQuota(_Object, frozen=True):
    """`spec` of a ResourceQuota."""

    hard: Amounts = {}
    scopes: tuple[str, ...] = ()
    scope_selector: model.Anything = {}


class LocalQueue(_Object, frozen=True):
    """`spec` of a LocalQueue of Kueue."""

    cluster_queue: str = ""


class _FlavorResource(_Object, frozen=True):
    name: str = ""
    nominal_quota: Quantity | None = None


class _Flavor(_Object, frozen=True):
    resources: tuple[_FlavorResource, ...] = ()


class _ResourceGroup(_Object, frozen=True):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[_Flavor, ...] = ()


class ClusterQueue(_Object, frozen=True):
    """`spec` of a ClusterQueue of Kueue."""

    cohort: str = ""
    cohort_name: str = ""
    resource_groups: tuple[_ResourceGroup, ...] = ()


class PodGroup(_Object, frozen=True):
    """`spec` of a PodGroup of scheduler-plugins or of Volcano."""

    min_member: int = 0


class _Channel(_Object, frozen=True):
    resource_claim_template: model.Named = model.Named()


class ComputeDomain(_Object, frozen=True):
    """`spec` of a ComputeDomain of NVIDIA's DRA driver."""

    channel: _Channel = _Channel()


_KINDS: Mapping[tuple[str, str], type[Struct]] = {
    **{("", each.__name__): each for each in (ConfigMap, Secret, PersistentVolumeClaim, Service, ResourceQuota)},
    (names.TRAINER_GROUP, "TrainJob"): model.TrainJob,
    (names.JOBSET_GROUP, "JobSet"): model.JobSet,
    ("resource.k8s.io", "ResourceClaimTemplate"): model.ResourceClaimTemplate,
    ("kueue.x-k8s.io", "LocalQueue"): LocalQueue,
    ("kueue.x-k8s.io", "ClusterQueue"): ClusterQueue,
    ("networking.k8s.io", "NetworkPolicy"): NetworkPolicy,
    ("resource.nvidia.com", "ComputeDomain"): ComputeDomain,
    ("scheduling.x-k8s.io", "PodGroup"): PodGroup,
    ("scheduling.volcano.sh", "PodGroup"): PodGroup,
}
"""By group and kind, for a Service of Knative is not a Service."""
_WHOLE = frozenset({ConfigMap, Secret, model.TrainJob, model.JobSet, model.ResourceClaimTemplate})
"""Those of which the whole document is read, and not `spec` alone."""
_MAKING_PODS = frozenset({"JobSet", "TrainJob", "Job", "Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})
_Kind = TypeVar("_Kind", bound=Struct)


class Given(NamedTuple, Generic[_Kind]):
    """A document of the input that has a name, and what it says."""

    source: Source
    value: _Kind

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.source.metadata.name

    @property
    def origin(self) -> Origin:
        """Its place."""
        return self.source.origin


class Inputs:
    """The documents of one input, each looked at once.

    Args:
        sources: the documents, of any kind.
        namespace: the namespace of documents that name none.

    Attributes:
        sources: the documents, in their order.
        makers: how many of them make pods.
        limits: what the quotas of each namespace allow, where that was asked for (`capacity`).
        services: the first job of each file that makes a Service, once all were looked at (`collisions`).
        stores: the first job of each that names an id of a store (`pod_networks`).
        ports: what the jobs so far open on their machines (`pod_networks`).
    """

    def __init__(self, sources: Sequence[Source] = (), namespace: str = "default") -> None:
        self.sources = sources
        self.makers = sum(each.kind in _MAKING_PODS for each in sources)
        self.limits: dict[str, Mapping[str, tuple[Fraction, str]]] = {}
        self.services: Mapping[tuple[str, str, str], Source] | None = None
        self.stores: dict[tuple[str, ...], Source] = {}
        self.ports: dict[Origin, tuple[Source, Opened]] = {}
        self._namespace = namespace
        self._found: dict[tuple[type[Struct], str], dict[str, list[Given[Any]]]] = {}
        for source in sources:
            kind = _KINDS.get((source.group, source.kind))
            if kind is not None and source.metadata.name:
                by_name = self._found.setdefault((kind, source.metadata.namespace), {})
                read = source.document if kind in _WHOLE else decoding.member(source.document, "spec")
                by_name.setdefault(source.metadata.name, []).append(Given(source, decoding.read(read, kind)))

    def namespace_of(self, source: Source) -> str:
        """Return the namespace in which a document would be created."""
        return source.metadata.namespace or self._namespace

    def named(self, kind: type[_Kind], namespace: str, name: str) -> list[Given[_Kind]]:
        """Return the documents of a kind, a namespace and a name; one that names no namespace is in any."""
        places = (self._found.get((kind, where), {}) for where in dict.fromkeys((namespace, "")))
        return [each for by_name in places for each in by_name.get(name, ())]

    def only(self, kind: type[_Kind], namespace: str, name: str) -> _Kind | None:
        """Return what the only document of a name says; None where there is none, or several."""
        found = self.named(kind, namespace, name)
        return found[0].value if len(found) == 1 else None

    def of_kind(self, kind: type[_Kind], namespace: str) -> Iterator[Given[_Kind]]:
        """Yield the documents of a kind in a namespace that have a name."""
        for where in dict.fromkeys((namespace, "")):
            for found in self._found.get((kind, where), {}).values():
                yield from found

    def has(self, namespace: str, *kinds: type[Struct]) -> bool:
        """Whether a namespace has a document of any of the kinds."""
        return any((kind, where) in self._found for kind in kinds for where in (namespace, ""))
