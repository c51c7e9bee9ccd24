"""What governs a job: its runtime, its owner, its framework, its namespace's mode.

A TrainJob names its runtime. A JobSet that Trainer made does not carry the runtime's label (only the labels of the
template reach it), so Muster looks up its TrainJob: first the runtime snapshot that Trainer froze for it in a
ConfigMap, then the live runtime. A JobSet without a TrainJob has its own framework label.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field, structs

from muster.strategies.claims.requests import is_of
from muster.strategies.documents import decoding, names, pods, trainjobs
from muster.strategies.documents.model import JobSetSpec, ObjectMeta, Trainer
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs import parts
from muster.strategies.launches import program_kinds
from muster.strategies.platform import devices
from muster.strategies.platform.profiles import REQUEST, Profile
from muster.strategies.platform.supplies import NOTHING, Supply
from muster.webhook.admission import documents, outlines, reviews
from muster.webhook.admission.documents import UnreadableError
from muster.webhook.cluster import readers
from muster.webhook.cluster.readers import Ref

__all__ = ["Governor", "UnreadableError", "find", "known", "outline"]


class Governor(Struct, frozen=True):
    """What governs a job.

    Attributes:
        runtime: None when there is none, or it cannot be read.
        owner: the TrainJob of a JobSet.
        namespace_label: value of `muster.dev/mode` on the namespace.
        claim_devices: number of devices by name of ResourceClaimTemplate or ResourceClaim; None when it is open.
        supply: what the cluster has for the claims that the job asks Muster for.
        runtime_open: whether the runtime was not found and may still exist, because the reader has not everything.
    """

    runtime: Runtime | None = None
    owner: Mapping[str, Any] | None = None
    namespace_label: str | None = None
    claim_devices: Mapping[str, int | None] = field(default_factory=dict)
    supply: Supply = NOTHING
    runtime_open: bool = False

    def with_supply(self, supply: Supply) -> Governor:
        """Return the same with what the cluster has for the claims of the job."""
        return structs.replace(self, supply=supply)

    @property
    def framework(self) -> str | None:
        """The framework label in force."""
        return self.runtime.framework if self.runtime else None

    @property
    def is_chosen(self) -> bool:
        """Whether the framework is that of a label on the JobSet itself."""
        return self.runtime is not None and self.runtime.source == "label"


def outline(request: reviews.Request, cluster: readers.ClusterReader) -> Governor:
    """Return what governs a job that cannot be evaluated: its namespace's mode, and runtime and owner in outlines.

    Args:
        request: its object may be anything.
        cluster: the reader.

    Raises:
        NotCached: the reader has to fetch something first.
    """
    heads = outlines.Outlines(cluster)
    label, runtime, owner = None, None, None
    with contextlib.suppress(readers.SnapshotInvalid, UnreadableError):
        label = _namespace_label(request.namespace, heads)
        head = outlines.outline(request.document)
        if not decoding.check(head, request.kind):
            runtime, owner = _governing(structs.replace(request, document=head), heads)
    return Governor(runtime, owner, label)


def known(request: reviews.Request, cluster: readers.ClusterReader) -> Governor:
    """Return what memory tells at once about the job's namespace and runtime; it never raises.

    It is for an answer to a job whose evaluation failed: a namespace in mode `warn`, or a framework that is `off`, is
    not refused because of a failure of Muster.

    Args:
        request: its object may be anything.
        cluster: the reader.
    """
    with contextlib.suppress(Exception):  # whatever it is, the failure that brought us here is the one to tell
        return outline(request, cluster)
    with contextlib.suppress(Exception):
        return Governor(namespace_label=_namespace_label(request.namespace, outlines.Outlines(cluster)))
    return Governor()


def find(request: reviews.Request, cluster: readers.ClusterReader, profiles: Mapping[str, Profile]) -> Governor:
    """Look everything up in the reader's memory, but for the supply.

    Args:
        request: its object has the shape of its kind.
        cluster: the reader.
        profiles: the profiles that the platform offers; their objects need not exist yet.

    Raises:
        NotCached: the reader has to fetch something first.
        SnapshotInvalid: the runtime snapshot of Trainer cannot be read.
        UnreadableError: another document cannot be read.
        BeyondError: a document is beyond its budget.
    """
    label = _namespace_label(request.namespace, cluster)
    runtime, owner = _governing(request, cluster)
    open_ = request.kind == "TrainJob" and runtime is None and not cluster.whole
    open_ = open_ and trainjobs.is_supported(request.document)
    claims = dict(_claim_devices(request, runtime, cluster, profiles))
    return Governor(runtime, owner, label, claims, runtime_open=open_)


def _governing(
    request: reviews.Request, cluster: readers.ClusterReader
) -> tuple[Runtime | None, Mapping[str, Any] | None]:
    if request.kind == "TrainJob":
        return _live_runtime(request.document, request.namespace, cluster), None
    owner = _owner(request.document, request.namespace, cluster)
    return _runtime_of_jobset(request, owner, cluster), owner


def _namespace_label(namespace: str, cluster: readers.ClusterReader) -> str | None:
    document = documents.read(Ref("Namespace", "", namespace), cluster) if namespace else None
    return None if document is None else _metadata(document).labels.get(names.MODE_LABEL)


def _metadata(document: Mapping[str, Any]) -> ObjectMeta:
    return decoding.read(decoding.member(document, "metadata"), ObjectMeta)


def _live_runtime(trainjob: Mapping[str, Any], namespace: str, cluster: readers.ClusterReader) -> Runtime | None:
    if not trainjobs.is_supported(trainjob):
        return None
    kind, name = trainjobs.runtime_ref(trainjob)
    document = documents.read(Ref(kind, namespace if kind == "TrainingRuntime" else "", name), cluster)
    return Runtime(document, "live", version=readers.trainer_of(cluster)) if document is not None else None


def _owner(jobset: Mapping[str, Any], namespace: str, cluster: readers.ClusterReader) -> Mapping[str, Any] | None:
    for owner in _metadata(jobset).owner_references:
        group = owner.api_version.partition("/")[0]
        if owner.controller and owner.kind == "TrainJob" and group == names.TRAINER_GROUP:
            ref = Ref("TrainJob", namespace, owner.name)
            found = documents.read(ref, cluster)
            if found is None:
                return {"kind": "TrainJob", "metadata": {"name": owner.name, "uid": owner.uid}}
            if _metadata(found).uid not in ("", owner.uid):
                raise readers.NotCached(ref)
            return found
    return None


def _runtime_of_jobset(
    request: reviews.Request, owner: Mapping[str, Any] | None, cluster: readers.ClusterReader
) -> Runtime | None:
    if owner is not None:
        ref = Ref("RuntimeSnapshot", request.namespace, _metadata(owner).name)
        frozen = documents.read(ref, cluster)
        if frozen is not None and _is_of_a_namesake(frozen, owner):
            raise readers.NotCached(ref)
        if frozen is not None:
            return Runtime(frozen, "snapshot", version=readers.trainer_of(cluster))
        return _live_runtime(owner, request.namespace, cluster)
    label = _metadata(request.document).labels.get(names.FRAMEWORK_LABEL)
    framework = label or request.launched
    document = {"metadata": {"labels": {names.FRAMEWORK_LABEL: framework}}}
    return Runtime(document, "label" if label else "launch") if framework else None


def _is_of_a_namesake(frozen: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether a snapshot was made for an earlier TrainJob of this name and is still in the cache."""
    made_for = next((each.uid for each in _metadata(frozen).owner_references if each.controller), "")
    return "" not in (made_for, uid := _metadata(owner).uid) and made_for != uid


def _claim_devices(
    request: reviews.Request,
    runtime: Runtime | None,
    cluster: readers.ClusterReader,
    profiles: Mapping[str, Profile],
) -> Iterator[tuple[str, int | None]]:
    if request.kind == "JobSet" and not _names_claims(request.document):
        places = []
    elif request.kind == "JobSet":
        work = parts.find(request.document, ("spec",), runtime.framework if runtime else None, program_kinds.identify)
        places = [pods.place(request.document, *each) for each in work.places]
    else:
        places = [runtime.trainer] if runtime and runtime.trainer else []
    found: dict[tuple[str, str], Mapping[str, Any] | None] = {}
    claims = [claim for place in places for claim in place.pod.resource_claims]
    if request.kind == "TrainJob":
        claims += decoding.read(trainjobs.trainer(request.document), Trainer).resource_claims_per_node
    for claim in claims:
        ours = next((profile for profile in profiles.values() if is_of(claim, profile)), None)
        kind, name = claim.source
        if ours is not None:
            yield name, ours.count
            yield devices.request_key(name, REQUEST), ours.count
        elif name and (kind, name) not in found:
            found[kind, name] = documents.read(Ref(kind, request.namespace, name), cluster)
    yield from _counted(found)


def _names_claims(jobset: Mapping[str, Any]) -> bool:
    """Whether any pod of a JobSet has claims, as few have."""
    spec = decoding.read(decoding.member(jobset, "spec"), JobSetSpec)
    return any(job.pod.resource_claims for job in spec.replicated_jobs)


def _counted(claims: Mapping[tuple[str, str], Mapping[str, Any] | None]) -> Iterator[tuple[str, int | None]]:
    """Yield the accelerators of each claim, and of each of its requests, by `devices.request_key`."""
    beside = any(documents.holds_accelerators(each) for each in claims.values() if each is not None)
    for (_, name), document in claims.items():
        yield name, None if document is None else documents.devices_of(document, beside=beside)
        if document is not None:
            for request, count in documents.devices_by_request(document):
                yield devices.request_key(name, request), count
