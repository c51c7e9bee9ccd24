"""Hardware: the devices of the two roles, and whether one claim gives both the same device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.claims import plans
from muster.strategies.claims.plans import ClaimPlan
from muster.strategies.documents import pods
from muster.strategies.frameworks.samplers.role_pairs import Pair
from muster.strategies.launches import topologies

__all__ = ["count", "idle_role", "shared_claim", "shared_profile"]


def count(pair: Pair) -> int | None:
    """Return how many devices the sampler will have once its claims are written; None when unknown, 0 for none."""
    plan = _plan(pair, pair.sampler.place)
    if plan is None or (pair.sampler.place.raw.get("resources") or {}).get("claims"):
        return topologies.own_devices(pair.job, pair.sampler.place).count
    counts = [use.devices for use in plan.uses]
    known = counts and None not in counts
    return sum(each or 0 for each in counts) if known else None


def idle_role(pair: Pair) -> str | None:
    """Return the name of the replicated job that asks for no device, None where both do or may."""
    if topologies.read_topology(pair.job).on_cpu:
        return pair.node.job_name
    return pair.sampler.name if count(pair) == 0 else None


def shared_claim(pair: Pair) -> str | None:
    """Return the name of a ResourceClaim that the containers of both roles use, None for none."""
    both = set(_claims(pair.node)) & set(_claims(pair.sampler.place))
    return min(both) if both else None


def shared_profile(pair: Pair) -> str | None:
    """Return the name of a shared profile of which both roles get a claim, which may be the same one."""
    mine, theirs = (_gated(_plan(pair, place)) for place in (pair.node, pair.sampler.place))
    return mine if mine == theirs else None


def _gated(plan: ClaimPlan | None) -> str | None:
    return plan.profile.name if plan and plan.is_gated and plan.profile else None


def _plan(pair: Pair, place: pods.Place) -> ClaimPlan | None:
    if pair.job.kind == "JobSet":
        return plans.plan_part(pair.job, place.job_path)
    every = plans.plan_claims(pair.job) if pair.job.supply.asked else []
    return next((plan for plan in every if plan.request.template.raw.get("name") == place.job_name), None)


def _claims(place: pods.Place) -> Iterator[str]:
    used = {each.get("name") for each in (place.raw.get("resources") or {}).get("claims") or ()}
    entries: list[Mapping[str, Any]] = place.raw_pod.get("resourceClaims") or []
    for entry in entries:
        if entry.get("name") in used and isinstance(entry.get("resourceClaimName"), str):
            yield entry["resourceClaimName"]
