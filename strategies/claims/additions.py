"""Additions: a plan is written to a JobSet when it is created.

Only the replaced limit is removed, and that is remembered like every change: Trainer applies the limit again at each
suspend and resume, and `restores` then removes it again. Everything else is added, has no field owner, and stays.
"""

from __future__ import annotations

import msgspec

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import plans
from muster.strategies.claims.plans import ClaimPlan, Use
from muster.strategies.documents import names
from muster.strategies.documents.paths import Absent, Path
from muster.strategies.jobs.jobs import Job

__all__ = ["enforce"]


def enforce(job: Job, changes: Changes, rule: str) -> None:
    """Give the pods of a JobSet the claims that were asked for.

    The first part of a job does this for all replicated jobs, each other part for its own pods.

    Args:
        job: a JobSet; a TrainJob cannot hold claims and is left alone.
        changes: the record of changes.
        rule: prefix of the rule ids, the framework's name.
    """
    if job.kind != "JobSet":
        return
    own = plans.training(job) if job.part else None
    planned = plans.plan_claims(job) if not job.part else [own] if own else []
    for plan in planned:
        if plan.uses:
            _swap(changes, plan, rule)
            for use in plan.uses:
                _claim(changes, plan, use, rule)
            _mark(changes, plan, rule)


def _swap(changes: Changes, plan: ClaimPlan, rule: str) -> None:
    for container, resource in plan.swapped:
        reason = f"{plan.told} replaces {resource}; with both, the pod would take two devices for each one"
        for part in ("limits", "requests"):
            changes.remove((*container, "resources", part, resource), rule=f"{rule}/replaced-resource", reason=reason)


def _claim(changes: Changes, plan: ClaimPlan, use: Use, rule: str) -> None:
    name = use.entry.name
    path = (*plan.request.template.pod_path, "resourceClaims")
    _add(changes, path, msgspec.to_builtins(use.entry), f"{rule}/claim", use.reason)
    for container in use.containers:
        reason = f"without it the container would not see the devices of claim {name}"
        _add(changes, (*container, "resources", "claims"), {"name": name}, f"{rule}/claim", reason)


def _mark(changes: Changes, plan: ClaimPlan, rule: str) -> None:
    """Gate the pods of a shared profile, and let the controller find everything that uses the profile."""
    if plan.profile is None:
        return
    template = plan.request.template
    if plan.is_gated:
        reason = f"profile {plan.profile.name} lets at most {plan.profile.max_sessions} pods run on one claim; "
        reason += "Muster's controller removes the gate when the pod has its seat"
        path = (*template.pod_path, "schedulingGates")
        _add(changes, path, {"name": names.SEAT_GATE}, f"{rule}/seat", reason)
    reason = f"by this label Muster's controller sees that profile {plan.profile.name} is in use and keeps its objects"
    for holder in ((*template.pod_path[:-1], "metadata"), ("metadata",)):
        path = (*holder, "labels", names.PROFILE_LABEL)
        if isinstance(changes.get(*path), Absent):
            changes.set(path, plan.profile.name, rule=f"{rule}/profile-label", reason=reason)


def _add(changes: Changes, path: Path, entry: dict[str, str], rule: str, reason: str) -> None:
    present = changes.get(*path)
    if not isinstance(present, list) or all(each.get("name") != entry["name"] for each in present):
        changes.append(path, entry, rule=rule, reason=reason)
