"""Supplies: what the platform and the cluster offer to jobs that claim devices.

Only objects that a request names are read. Seats are read from memory only: they help to choose between claims and
promise nothing, so an admission never waits for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import requests
from muster.strategies.documents import names
from muster.strategies.jobs.jobs import Job, Kind
from muster.strategies.launches import program_kinds
from muster.strategies.platform.profiles import Profile, claim_names, spec_hash
from muster.strategies.platform.supplies import DeviceClass, Named, Supply, holders
from muster.webhook.admission import documents
from muster.webhook.admission.governors import Governor
from muster.webhook.admission.policies import Policy
from muster.webhook.admission.reviews import Request
from muster.webhook.cluster import readers
from muster.webhook.cluster.readers import Ref

__all__ = ["find"]


def find(request: Request, governor: Governor, policy: Policy, cluster: readers.ClusterReader) -> Supply:
    """Return what the cluster has for the claims that a job asks for.

    Args:
        request: its object has the shape of its kind.
        governor: of the job.
        policy: the policy in force.
        cluster: the reader.

    Raises:
        NotCached: the reader has to fetch something first.
        UnreadableError: a document cannot be read.
        BeyondError: a document is beyond its budget.
    """
    kind: Kind = "TrainJob" if request.kind == "TrainJob" else "JobSet"
    job = Job(
        kind=kind,
        changes=Changes(request.document),
        namespace=request.namespace,
        runtime=governor.runtime,
        owner=governor.owner,
        settings=policy.framework(governor.framework).settings,
        roles=policy.roles,
        identify=program_kinds.identify,
    )
    own = list(_own(job, policy)) if governor.claim_devices else []
    if not own and not requests.may_ask(job):
        return Supply(profiles=policy.profiles, asked=False)
    offered = Supply(profiles=policy.profiles)
    job = structs.replace(job, changes=Changes(request.document), supply=offered, memory={})
    asked = requests.list_requests(job)
    wanted = [policy.profiles[name] for name in {each.profile or "": None for each in asked} if name in policy.profiles]
    objects = dict.fromkeys([*own, *((claim.kind, claim.object) for each in asked for claim in each.claims)])
    named = {each: _named(Ref(each[0], request.namespace, each[1]), cluster) for each in objects}
    classes = {profile.device_class for profile in wanted}
    classes |= {name for found in named.values() if found is not None for name in found.classes}
    known = {name: _device_class(name, cluster) for name in sorted(classes)}
    claims = dict(_shared(wanted, request.namespace, cluster))
    return Supply(
        profiles=policy.profiles,
        classes={name: each for name, each in known.items() if each is not None or cluster.whole},
        seats={claim: holders(document) for claim, (_, document) in claims.items()},
        drained=frozenset(claim for claim, (profile, document) in claims.items() if _is_older(document, profile)),
        named=named,
        whole=cluster.whole,
    )


def _own(job: Job, policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the claims that the training pods already have."""
    containers = (view.container for view in job.views)
    for entry in (each for found in containers if found for each in found.pod.resource_claims):
        if entry.source[1] and not any(requests.is_of(entry, profile) for profile in policy.profiles.values()):
            yield entry.source


def _device_class(name: str, cluster: readers.ClusterReader) -> DeviceClass | None:
    document = documents.read(Ref("DeviceClass", "", name), cluster)
    if document is None:
        return None
    return DeviceClass(name, (document.get("spec") or {}).get("extendedResourceName") or None)


def _named(ref: Ref, cluster: readers.ClusterReader) -> Named | None:
    document = documents.read(ref, cluster)
    if document is None:
        return None
    requests = tuple(str(each.get("name") or "") for each in documents.requests_of(document))
    return Named(
        devices=documents.devices_of(document),
        classes=tuple(documents.classes_of(document)),
        requests=requests,
        slices=documents.slices_of(document),
        fewest=documents.fewest_of(document),
    )


def _shared(
    wanted: Iterable[Profile], namespace: str, cluster: readers.ClusterReader
) -> Iterator[tuple[str, tuple[Profile, Mapping[str, Any]]]]:
    for profile in wanted:
        for claim in claim_names(profile) if profile.is_shared else ():
            try:
                document = cluster.get(Ref("ResourceClaim", namespace, claim))
            except readers.NotCached:  # not made or not seen yet, so no seat is known
                continue
            if document is not None:
                yield claim, (profile, document)


def _is_older(claim: Mapping[str, Any], profile: Profile) -> bool:
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    made = annotations.get(names.SPEC_HASH_ANNOTATION)
    return made is not None and bool(made != spec_hash(profile))
