"""Reads claims and seats once, for `muster claims`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.kube import payloads, transports
from muster.strategies.documents import names
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.seats import Seat, SeatsError, parse_seats
from muster.webhook.cluster import kinds, served
from muster.webhook.controllers import desired, views
from muster.webhook.controllers.holdings import Holding, parse_holding

__all__ = ["ClaimRow", "Survey", "TemplateRow", "take"]

_PAGE = "250"
_MAX_PAGE = 64 * 1024 * 1024


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


async def take(api: transports.Api, profiles: Mapping[str, Profile], namespace: str, deadline: float = 10.0) -> Survey:
    """Read claims, templates and pods of one namespace, "" for all.

    Args:
        api: a connection to the API server; not closed here.
        profiles: the profiles, for limits and versions; claims of unknown profiles are shown without these.
        namespace: its name.
        deadline: seconds for each page.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    claims = await _listed(api, kinds.CLAIM, namespace, deadline)
    templates = await _listed(api, kinds.TEMPLATE, namespace, deadline)
    pods = [views.Pod.from_document(each) for each in await _listed(api, kinds.POD, namespace, deadline)]
    live = sorted((pod for pod in pods if not pod.ended), key=lambda pod: (pod.created, pod.name))
    return Survey(
        tuple(_claim_row(each, live, profiles) for each in claims),
        tuple(_template_row(each, live) for each in templates),
    )


def _claim_row(document: Mapping[str, Any], pods: Iterable[views.Pod], profiles: Mapping[str, Profile]) -> ClaimRow:
    claim = views.Managed.from_document(document)
    profile = profiles.get(claim.profile)
    users = [pod for pod in pods if pod.namespace == claim.namespace and claim.name in pod.claims]
    results = (((document.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
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
        tuple(f"{each['pool']}/{each['device']}" for each in results),
        tuple(sorted(held.values(), key=lambda seat: (seat.since, seat.pod))),
        tuple(pod.name for pod in users if pod.gated and pod.uid not in held),
        "deleting" if claim.deleting else state,
        parse_holding((document["metadata"].get("annotations") or {}).get(names.LEASE_ANNOTATION)),
    )


def _template_row(document: Mapping[str, Any], pods: Iterable[views.Pod]) -> TemplateRow:
    template = views.Managed.from_document(document)
    users = (pod for pod in pods if pod.namespace == template.namespace and template.name in pod.templates)
    return TemplateRow(template.namespace, template.name, template.profile, tuple(pod.name for pod in users))


async def _listed(api: transports.Api, kind: served.Kind, namespace: str, deadline: float) -> list[dict[str, Any]]:
    """Return the objects of a kind that its label selector chooses, by namespace and name."""
    query, found = {"limit": _PAGE, **kind.query}, []
    patience = transports.Patience(deadline, deadline)
    while True:
        async with asyncio.timeout(deadline), api.get(kind.path(namespace), query, patience) as response:
            page = await payloads.read(await payloads.checked(response), _MAX_PAGE, f"a page of {kind.plural}")
        found += [{"kind": kind.served, **each} for each in page.get("items") or ()]
        if not (more := (page.get("metadata") or {}).get("continue")):
            break
        query["continue"] = more
    return sorted(found, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"]))
