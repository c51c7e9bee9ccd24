"""What governs a job: its runtime, its owner, its framework, its namespace's mode.

A TrainJob names its runtime. A JobSet that Trainer made does not carry the runtime's label (only the labels of the
template reach it), so Muster looks up its TrainJob: first the runtime snapshot that Trainer froze for it in a
ConfigMap, then the live runtime. A JobSet without a TrainJob has its own framework label.

Any author of jobs can write owner, ConfigMap, label and TrainingRuntime, so none of them chooses a milder mode: see
docs/strategies.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field, structs

from muster.strategies.changes.changes import Changes
from muster.strategies.claims.requests import is_of
from muster.strategies.documents import decoding, names, pods, trainjobs
from muster.strategies.documents.model import JobSetSpec, ObjectMeta, Trainer
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs.jobs import Job
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
        guard_label: value of `muster.dev/guard` on the namespace.
        granted: the framework of the ClusterTrainingRuntime that the job names; its mode is the platform's own choice.
        own_label: the framework label on a JobSet itself.
        claim_devices: number of devices by name of ResourceClaimTemplate or ResourceClaim; None when it is open.
        supply: what the cluster has for the claims that the job asks Muster for.
        runtime_open: whether the runtime was not found and may still exist, because the reader has not everything.
    """

    runtime: Runtime | None = None
    owner: Mapping[str, Any] | None = None
    namespace_label: str | None = None
    guard_label: str | None = None
    granted: str | None = None
    own_label: str | None = None
    claim_devices: Mapping[str, int | None] = field(default_factory=dict)
    supply: Supply = NOTHING
    runtime_open: bool = False

    def with_supply(self, supply: Supply) -> Governor:
        """Return the same with what the cluster has for the claims of the job."""
        return structs.replace(self, supply=supply)

    @property
    def alone(self) -> Governor:
        """The same for a JobSet if it had no TrainJob: governed by its own label."""
        return structs.replace(self, runtime=_labelled(self.own_label), owner=None)

    @property
    def framework(self) -> str | None:
        """The framework label in force."""
        return self.runtime.framework if self.runtime else None

    @property
    def chosen(self) -> Iterable[str]:
        """The frameworks that labels name, of which an author of jobs may have written each."""
        return filter(None, (self.framework, self.own_label))


def outline(request: reviews.Request, cluster: readers.ClusterReader) -> Governor:
    """Return what governs a job that cannot be evaluated: its namespace's mode, and runtime and owner in outlines.

    Args:
        request: its object may be anything.
        cluster: the reader.

    Raises:
        NotCached: the reader has to fetch something first.
    """
    heads, found = outlines.Outlines(cluster), Governor()
    with contextlib.suppress(UnreadableError):
        found = _of_namespace(request.namespace, heads)
        head = outlines.outline(request.document)
        if not decoding.check(head, request.kind):
            found = _governing(structs.replace(request, document=head), heads, found)
    return found


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
        return _of_namespace(request.namespace, outlines.Outlines(cluster))
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
    found = _governing(request, cluster, _of_namespace(request.namespace, cluster))
    open_ = request.kind == "TrainJob" and found.runtime is None and not cluster.whole
    open_ = open_ and trainjobs.is_supported(request.document)
    claims = dict(_claim_devices(request, found, cluster, profiles))
    return structs.replace(found, claim_devices=claims, runtime_open=open_)


def _governing(request: reviews.Request, cluster: readers.ClusterReader, found: Governor) -> Governor:
    """Return a governor with runtime and owner, and the frameworks that choose the mode."""
    is_jobset = request.kind == "JobSet"
    owner = _owner(request.document, request.namespace, cluster) if is_jobset else None
    named = owner if is_jobset else request.document
    live = _live_runtime(named, request.namespace, cluster) if named is not None else None
    runtime, label = live, None
    if is_jobset:
        label = _metadata(request.document).labels.get(names.FRAMEWORK_LABEL) or None
        frozen = _frozen(owner, request.namespace, cluster) if owner is not None else None
        if frozen is not None and (live is None or frozen.framework == live.framework):
            runtime = frozen
        runtime = runtime or _labelled(label, request.launched if owner is None else "")
    granted = live.framework if live is not None and live.kind == "ClusterTrainingRuntime" else None
    return structs.replace(found, runtime=runtime, owner=owner, granted=granted, own_label=label)


def _of_namespace(namespace: str, cluster: readers.ClusterReader) -> Governor:
    """Return a governor with what the labels of a namespace say."""
    document = documents.read(Ref("Namespace", "", namespace), cluster) if namespace else None
    labels = _metadata(document).labels if document is not None else {}
    return Governor(namespace_label=labels.get(names.MODE_LABEL), guard_label=labels.get(names.GUARD_LABEL))


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


def _frozen(owner: Mapping[str, Any], namespace: str, cluster: readers.ClusterReader) -> Runtime | None:
    """Return the runtime snapshot of a TrainJob; None where Trainer itself takes none.

    Any author may write such a ConfigMap. Trainer takes one that the TrainJob controls and that holds the runtime which
    the TrainJob names (trainer `pkg/runtime/core/snapshot.go`).
    """
    ref, uid = Ref("RuntimeSnapshot", namespace, _metadata(owner).name), _metadata(owner).uid
    frozen = documents.read(ref, cluster)
    made_for = next((each.uid for each in _metadata(frozen or {}).owner_references if each.controller), None)
    if frozen is None or made_for is None:
        return None
    if "" not in (made_for, uid) and made_for != uid:  # of an earlier TrainJob of this name, still in the cache
        raise readers.NotCached(ref)
    runtime = Runtime(frozen, "snapshot", version=readers.trainer_of(cluster))
    is_named = "spec" not in owner or (runtime.kind, runtime.name) == trainjobs.runtime_ref(owner)
    return runtime if is_named else None


def _labelled(label: str | None, launched: str = "") -> Runtime | None:
    """Return a runtime that has only the framework of a JobSet's label, or else of its launch."""
    document = {"metadata": {"labels": {names.FRAMEWORK_LABEL: label or launched}}}
    return Runtime(document, "label" if label else "launch") if label or launched else None


def _claim_devices(
    request: reviews.Request,
    governor: Governor,
    cluster: readers.ClusterReader,
    profiles: Mapping[str, Profile],
) -> Iterator[tuple[str, int | None]]:
    runtime = governor.runtime
    if request.kind == "JobSet" and not _names_claims(request.document):
        places = []
    elif request.kind == "JobSet":
        changes = Changes(request.document)
        job = Job("JobSet", changes, runtime=runtime, owner=governor.owner, identify=program_kinds.identify)
        places = [pods.place(request.document, *each) for each in job.parts.places]
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
