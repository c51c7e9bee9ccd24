"""Additions: all that a role puts on a JobSet, once, when it is created.

Nothing that a user wrote is replaced, and what stands there already is not added again. Of a TrainJob nothing is
changed: the JobSet is where the pods are described, and Trainer leaves alone what it did not write.
"""

from __future__ import annotations

from strategies.changes.changes import Changes
from strategies.claims import requests
from strategies.documents import names
from strategies.jobs import assignments
from strategies.jobs.jobs import Job
from strategies.jobs.templates import Template, list_templates
from strategies.platform.placements import KNOWN
from strategies.roles import affinities, memories, spreads, tolerations

__all__ = ["enforce"]


def enforce(job: Job, changes: Changes) -> None:
    """Place each replicated job of a JobSet by its role, and let it ask for the memory of its profile."""
    if job.kind != "JobSet":
        return
    for request in requests.list_requests(job):
        _measure(job, changes, request)
    for template in list_templates(job) if job.roles else ():
        if template.spec:
            _place(job, changes, template)


def _place(job: Job, changes: Changes, template: Template) -> None:
    assigned = assignments.find_assignment(job, template)
    if assigned is None or assigned.word not in KNOWN:
        return
    _label(changes, template, assigned)
    role = job.roles.get(assigned.word)
    if role is not None:
        for add in (affinities.require, affinities.keep_apart, tolerations.add, spreads.add):
            add(changes, template.pod_path, role, f"by {assigned.where}")


def _label(changes: Changes, template: Template, assigned: assignments.Assignment) -> None:
    labels, path = next(template.metadata("labels"))
    if names.ROLE_LABEL not in labels:
        reason = f"other pods keep apart from pods of role {assigned.word} by this label; it is {assigned.where}"
        changes.set((*path, names.ROLE_LABEL), assigned.word, rule="roles/label", reason=reason)


def _measure(job: Job, changes: Changes, request: requests.Request) -> None:
    profile = job.supply.profiles.get(request.profile or "")
    if profile is not None and profile.memory is not None:
        because = f"profile {profile.name}, asked for by {request.because}"
        memories.add(changes, request.template, profile.memory, because)
