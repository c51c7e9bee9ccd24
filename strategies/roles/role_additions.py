"""Additions: what a role adds to a JobSet when it is created.

Nothing that a user wrote is replaced, and nothing is added twice. A TrainJob is not changed: the JobSet describes the
pods, and Trainer leaves alone what it did not write.
"""

from __future__ import annotations

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import requests
from muster.strategies.documents import names
from muster.strategies.jobs import assignments
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates
from muster.strategies.platform.placements import KNOWN, Role
from muster.strategies.roles import affinities, role_memories, tolerations

__all__ = ["enforce"]


def enforce(job: Job, changes: Changes) -> None:
    """Place each replicated job of a JobSet by its role, and set the memory request of its profile."""
    if job.kind != "JobSet":
        return
    for request in requests.list_requests(job):
        _measure(job, changes, request)
    for template in list_templates(job) if job.roles else ():
        if template.pod.containers:
            _place(job, changes, template)


def _place(job: Job, changes: Changes, template: Template) -> None:
    assigned = assignments.find_assignment(job, template)
    if assigned is None or assigned.word not in KNOWN:
        return
    _label(changes, template, assigned)
    role = job.roles.get(assigned.word)
    if role is not None:
        for add in (affinities.require, affinities.keep_apart, tolerations.add, _spread):
            add(changes, template, role, f"set by {assigned.where}")


def _label(changes: Changes, template: Template, assigned: assignments.Assignment) -> None:
    if names.ROLE_LABEL not in template.job.template.spec.template.metadata.labels:
        reason = f"pods of other roles recognise role {assigned.word} by this label; {assigned.where} sets the role"
        path = (*template.pod_path[:-1], "metadata", "labels", names.ROLE_LABEL)
        changes.set(path, assigned.word, rule="roles/label", reason=reason)


def _measure(job: Job, changes: Changes, request: requests.ClaimRequest) -> None:
    profile = job.supply.profiles.get(request.profile or "")
    if profile is not None and profile.memory is not None:
        because = f"profile {profile.name}, asked for by {request.because}"
        role_memories.add(changes, request.template, profile.memory, because)


def _spread(changes: Changes, template: Template, role: Role, because: str) -> None:
    """Add the role's spread unless a constraint already spreads the pods over this topology.

    The spread is soft: a pod that finds no room where the count is lowest runs elsewhere, because pods that share a
    device must also share its node. `matchLabelKeys` counts the pods of the same JobSet without naming it, since a
    generated name is not known yet (core/v1 TopologySpreadConstraint, on by default since Kubernetes 1.27).
    """
    if role.spread in (None, *(each.topology_key for each in template.pod.topology_spread_constraints)):
        return
    constraint = {
        "maxSkew": 1,
        "topologyKey": role.spread,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {names.ROLE_LABEL: role.name}},
        "matchLabelKeys": [names.JOBSET_NAME_LABEL],
    }
    reason = f"role {role.name}, {because}, is spread over {role.spread}"
    path = (*template.pod_path, "topologySpreadConstraints")
    changes.append(path, constraint, rule="roles/spread", reason=reason)
