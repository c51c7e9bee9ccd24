"""Handwritten claims: those that pods bring themselves, in a JobSet or in a runtime's template.

They belong to the user and stay as they are. They are checked like a claim that Muster adds: whether the claim exists,
whether a limit asks for the same devices, and whether a pod would take a seat that the controller did not assign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.strategies.claims import leftovers
from muster.strategies.claims.plans import ClaimPlan
from muster.strategies.claims.requests import ClaimRequest
from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.model import PodClaim
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template

__all__ = ["check"]

_SHOWN = 5


def check(job: Job, planned: list[ClaimPlan]) -> Iterator[Finding]:
    """Check the claims of pods that are not part of a plan.

    Args:
        job: the job as it will be stored.
        planned: its plans; the claims in them are checked elsewhere.
    """
    yield from _unused(job, planned)
    if not (job.supply.profiles or job.supply.named):
        return
    training = job.container.job_path if job.container else None
    plans = {plan.request.template.path: plan for plan in reversed(planned)}
    for template in templates.list_templates(job):
        plan = plans.get(template.path)
        added = {use.entry.name for use in plan.uses} if plan else set()
        own = {index: each for index, each in enumerate(template.pod.resource_claims) if each.name not in added}
        yield from _ungated(job, template)
        if template.path == training and own:
            yield from _missing(job, template, own)
            yield from _unrequested(job, template)
            yield from _sliced(job, template, own)
            if plan is None or not plan.swapped:
                yield from _doubled(job, template, own)


def _unused(job: Job, planned: list[ClaimPlan]) -> Iterator[Finding]:
    """Warn about a claim whose devices are taken and reach no container."""
    held = [template for template in templates.list_templates(job) if template.pod.resource_claims]
    added = {use.entry.name for plan in planned for use in plan.uses} if held else ()
    for template in held:
        users = _users(template)
        for index, entry in enumerate(template.pod.resource_claims):
            if entry.name not in users and entry.name not in added:
                message = (
                    "no container names this claim in its resources.claims, so its devices are taken and nobody sees "
                    "them; add it to a container, or remove it"
                )
                yield warning(_field(job, template, index, "name"), entry.name, message, rule="claims/unused")


def _ungated(job: Job, template: Template) -> Iterator[Finding]:
    """Refuse a shared claim that was named by hand: without the gate, the claim could get one pod too many."""
    gated = any(gate.name == names.SEAT_GATE for gate in template.pod.scheduling_gates)
    for index, entry in enumerate(template.pod.resource_claims if not gated else ()):
        profile = job.supply.maker(entry.resource_claim_name)
        if profile is not None:
            message = (
                f"is a claim of profile {profile.name}, whose seats only Muster assigns; remove it and ask for the "
                f"profile by the annotation {names.CLAIM_PROFILE_ANNOTATION}"
            )
            field = _field(job, template, index, "resourceClaimName")
            yield error(field, entry.resource_claim_name, message, rule="claims/seat")


def _missing(job: Job, template: Template, own: Mapping[int, PodClaim]) -> Iterator[Finding]:
    for index, entry in own.items():
        kind, name = entry.source
        lacking = job.supply.lacks(kind, name)
        if lacking is not None:
            report, message = lacking
            field = _field(job, template, index, f"{kind[0].lower()}{kind[1:]}Name")
            yield report(field, name, message, rule="claims/unknown-object")


def _unrequested(job: Job, template: Template) -> Iterator[Finding]:
    """Report a request that the claim does not have: the kubelet then gives the container none of its devices.

    Source: kubernetes `pkg/kubelet/cm/dra/claiminfo.go` cdiDevicesAsList.
    """
    held = {entry.name: job.supply.named.get(entry.source) for entry in template.pod.resource_claims}
    for inside, container in template.containers:
        for number, used in enumerate(container.resources.claims):
            named = held.get(used.name)
            if used.request and named is not None and used.request.partition("/")[0] not in named.requests:
                message = (
                    f"claim {used.name} has no request of this name, so the container would get none of its devices; "
                    f"use {' or '.join(named.requests[:_SHOWN]) or 'another claim'}"
                )
                field = _place(job, template, *inside, "resources", "claims", number, "request")
                yield error(field, used.request, message, rule="claims/request")


def _sliced(job: Job, template: Template, own: Mapping[int, PodClaim]) -> Iterator[Finding]:
    """Warn about several MIG slices in one pod; see `muster.strategies.platform.devices`."""
    slices = sum(named.slices for each in own.values() if (named := job.supply.named.get(each.source)) is not None)
    if slices > 1:
        message = (
            f"a pod can use one MIG slice, and {slices - 1} would be idle; claim one for each pod and raise the number "
            "of pods"
        )
        yield warning(_place(job, template, "resourceClaims"), None, message, rule="claims/slices")


def _place(job: Job, template: Template, *inside: str | int) -> str:
    field = template.field(*inside)
    return field if templates.is_of_job(job, field) or job.runtime is None else f"{job.runtime.kind} {field}"


def _doubled(job: Job, template: Template, own: Mapping[int, PodClaim]) -> Iterator[Finding]:
    request = ClaimRequest(template, None, (), "from the pod spec", template.field("resourceClaims"))
    users = _users(template)
    uses = [(entry, users.get(entry.name, [])) for entry in own.values()]
    yield from leftovers.judge(job, request, None, uses).problems


def _users(template: Template) -> dict[str, list[Path]]:
    """Return the containers that use each claim, by its name in the pod."""
    users: dict[str, list[Path]] = {}
    for inside, container in template.containers:
        for name in dict.fromkeys(claim.name for claim in container.resources.claims):
            users.setdefault(name, []).append((*template.pod_path, *inside))
    return users


def _field(job: Job, template: Template, index: int, member: str) -> str:
    return f"{_place(job, template, 'resourceClaims', index)}.{member}"
