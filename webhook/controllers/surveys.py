"""Reads claims and seats once, for `muster claims`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from muster.kube import transports
from muster.strategies.documents import names
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.seats import Seat, SeatsError, parse_seats
from muster.webhook.cluster import kinds, listings, served
from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import desired, views

__all__ = ["UNREADABLE", "ClaimRow", "Holding", "Survey", "TemplateRow", "parse_holding", "take"]


@dataclass(frozen=True, slots=True)
class Holding:
    """Who has the device of a claim at the moment, as the agent of its node writes it on the claim (docs/sharing.md).

    Attributes:
        phase: what the device is at; the lease's own words, or `unreadable`.
        holder: the pod that has memory on it; None for none.
        since: when that got it, RFC 3339 in UTC; None without a holder.
        changes: how often another pod than the one before got the device, since the agent started.
        turns: how many each session had in that time, by NAMESPACE/SESSION.
        waiting: pods that wait for it, in the order in which they asked.
        at: when this was written, RFC 3339 in UTC.
    """

    phase: str
    holder: str | None
    since: str | None
    changes: int
    turns: Mapping[str, int]
    waiting: tuple[str, ...]
    at: str | None


UNREADABLE = Holding("unreadable", None, None, 0, {}, (), None)
"""An annotation that no agent wrote."""


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One shared claim.

    Attributes:
        limit: the number of its seats; None when its profile is not known here.
        devices: the allocated devices, as `pool/device`.
        seats: the taken seats, oldest first.
        waiting: names of the pods that wait for a seat, oldest first.
        state: `free`, `in use`, `old` (of another version of its profile), `deleting`, or `unreadable`.
        lease: who has the device at the moment, where pods take turns on it; None where they do not.
    """

    namespace: str
    name: str
    profile: str
    limit: int | None
    devices: tuple[str, ...]
    seats: tuple[Seat, ...]
    waiting: tuple[str, ...]
    state: str
    lease: Holding | None = None


@dataclass(frozen=True, slots=True)
class TemplateRow:
    """One template; `pods` are the live ones that name it."""

    namespace: str
    name: str
    profile: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """All claims and templates that Muster made in some namespaces."""

    claims: tuple[ClaimRow, ...]
    templates: tuple[TemplateRow, ...]


async def take(
    api: transports.Sender, profiles: Mapping[str, Profile], namespace: str, deadline: float = 10.0
) -> Survey:
    """Read claims, templates and pods of one namespace, "" for all.

    Args:
        api: a connection to the API server; not closed here.
        profiles: the profiles, for limits and versions; claims of unknown profiles are shown without these.
        namespace: its name.
        deadline: seconds for each page.

    Raises:
        TransportError: the API server refused or did not answer.
    """

    async def listed(kind: served.Kind) -> list[Document]:
        return [*await listings.read(api, kind, namespace, deadline, selector=kind.selector, status=True, absent=False)]

    claims, templates = await listed(kinds.CLAIM), await listed(kinds.TEMPLATE)
    pods = [views.Pod.from_document(each) for each in await listed(kinds.POD)]
    live = sorted((pod for pod in pods if not pod.ended), key=lambda pod: (pod.created, pod.name))
    return Survey(
        tuple(_claim_row(each, live, profiles) for each in claims),
        tuple(_template_row(each, live) for each in templates),
    )


def parse_holding(annotation: str | None) -> Holding | None:
    """Parse the annotation; None where there is none, and `UNREADABLE` for one of another form."""
    if annotation is None:
        return None
    try:
        return msgspec.json.decode(annotation, type=Holding)
    except (msgspec.MsgspecError, RecursionError):
        return UNREADABLE


def _claim_row(document: Document, pods: Iterable[views.Pod], profiles: Mapping[str, Profile]) -> ClaimRow:
    claim = views.Managed.from_document(document)
    profile = profiles.get(claim.profile)
    users = [pod for pod in pods if pod.namespace == claim.namespace and claim.name in pod.claims]
    found = views.decoded(document)
    results = found.status.allocation.devices.results if found.status.allocation else ()
    try:
        held, state = parse_seats(claim.seats), "in use" if claim.allocated or claim.seats != "{}" else "free"
    except SeatsError:
        held, state = {}, "unreadable"
    if profile and claim.hash != desired.spec_hash(profile):
        state = "old"
    return ClaimRow(
        claim.namespace,
        claim.name,
        claim.profile,
        profile.max_sessions if profile else None,
        tuple(f"{each.pool}/{each.device}" for each in results),
        tuple(sorted(held.values(), key=lambda seat: (seat.since, seat.pod))),
        tuple(pod.name for pod in users if pod.gated and pod.uid not in held),
        "deleting" if claim.deleting else state,
        parse_holding(found.metadata.annotations.get(names.LEASE_ANNOTATION)),
    )


def _template_row(document: Document, pods: Iterable[views.Pod]) -> TemplateRow:
    template = views.Managed.from_document(document)
    users = (pod for pod in pods if pod.namespace == template.namespace and template.name in pod.templates)
    return TemplateRow(template.namespace, template.name, template.profile, tuple(pod.name for pod in users))
