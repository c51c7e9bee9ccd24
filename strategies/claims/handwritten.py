"""Handwritten claims: those that pods bring themselves, in a JobSet or in a runtime's template.

They belong to the user and stay as they are. They are checked like a claim that Muster adds: whether the claim exists,
whether a limit asks for the same devices, and whether a pod would take a seat that the controller did not assign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.claims import leftovers
from muster.strategies.claims.plans import ClaimPlan
from muster.strategies.claims.requests import ClaimRequest
from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.paths import Path
from muster.strategies.documents.pods import CLAIM_SOURCES
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.strategies.platform.supplies import Named

__all__ = ["check", "find_named"]

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
        added = {use.entry["name"] for use in plan.uses} if plan else set()
        own = {index: each for index, each in _entries(template) if each.get("name") not in added}
        yield from _ungated(job, template)
        if template.path == training and own:
            yield from _missing(job, template, own)
            yield from _unrequested(job, template)
            yield from _sliced(job, template, own)
            if plan is None or not plan.swapped:
                yield from _doubled(job, template, own)


def _unused(job: Job, planned: list[ClaimPlan]) -> Iterator[Finding]:
    """Warn about a claim whose devices are taken and reach no container."""
    held = [template for template in templates.list_templates(job) if template.raw_spec.get("resourceClaims")]
    added = {use.entry["name"] for plan in planned for use in plan.uses} if held else ()
    for template in held:
        users = _users(template)
        for index, entry in _entries(template):
            name = entry.get("name")
            if name not in users and name not in added:
                message = (
                    "no container names this claim in its resources.claims, so its devices are taken and nobody sees "
                    "them; add it to a container, or remove it"
                )
                yield warning(_field(job, template, index, "name"), name, message, rule="claims/unused")


def _entries(template: Template) -> Iterator[tuple[int, Mapping[str, Any]]]:
    yield from enumerate(template.raw_spec.get("resourceClaims") or ())


def _ungated(job: Job, template: Template) -> Iterator[Finding]:
    """Refuse a shared claim that was named by hand: without the gate, the claim could get one pod too many."""
    gated = any(gate.get("name") == names.SEAT_GATE for gate in template.raw_spec.get("schedulingGates") or ())
    for index, entry in _entries(template) if not gated else ():
        profile = job.supply.maker(str(entry.get("resourceClaimName")))
        if profile is not None:
            message = (
                f"is a claim of profile {profile.name}, whose seats only Muster assigns; remove it and ask for the "
                f"profile by the annotation {names.CLAIM_PROFILE_ANNOTATION}"
            )
            field = _field(job, template, index, "resourceClaimName")
            yield error(field, entry.get("resourceClaimName"), message, rule="claims/seat")


def _missing(job: Job, template: Template, own: Mapping[int, Mapping[str, Any]]) -> Iterator[Finding]:
    for index, entry in own.items():
        for member, kind in CLAIM_SOURCES.items():
            lacking = job.supply.lacks(kind, str(entry.get(member)))
            if lacking is not None:
                report, message = lacking
                field = _field(job, template, index, member)
                yield report(field, entry.get(member), message, rule="claims/unknown-object")


def _unrequested(job: Job, template: Template) -> Iterator[Finding]:
    """Report a request that the claim does not have: the kubelet then gives the container none of its devices.

    Source: kubernetes `pkg/kubelet/cm/dra/claiminfo.go` cdiDevicesAsList.
    """
    held = {entry.get("name"): find_named(job, entry) for _, entry in _entries(template)}
    for member in ("containers", "initContainers"):
        for index, container in enumerate(template.raw_spec.get(member) or ()):
            for number, used in enumerate((container.get("resources") or {}).get("claims") or ()):
                request, named = used.get("request"), held.get(used.get("name"))
                if request and named is not None and str(request).partition("/")[0] not in named.requests:
                    message = (
                        f"claim {used.get('name')} has no request of this name, so the container would get none of its "
                        f"devices; use {' or '.join(named.requests[:_SHOWN]) or 'another claim'}"
                    )
                    inside = (member, index, "resources", "claims", number)
                    yield error(_place(job, template, *inside, "request"), request, message, rule="claims/request")


def _sliced(job: Job, template: Template, own: Mapping[int, Mapping[str, Any]]) -> Iterator[Finding]:
    """Warn about several MIG slices in one pod; see `muster.strategies.platform.devices`."""
    slices = sum(named.slices for named in (find_named(job, each) for each in own.values()) if named is not None)
    if slices > 1:
        message = (
            f"a pod can use one MIG slice, and {slices - 1} would be idle; claim one for each pod and raise the number "
            "of pods"
        )
        yield warning(_place(job, template, "resourceClaims"), None, message, rule="claims/slices")


def find_named(job: Job, entry: Mapping[str, Any]) -> Named | None:
    """Return what is known of the object that an entry of a pod's `resourceClaims` names, None for nothing."""
    keys = ((kind, str(entry.get(member))) for member, kind in CLAIM_SOURCES.items() if entry.get(member))
    return next((found for key in keys if (found := job.supply.named.get(key)) is not None), None)


def _place(job: Job, template: Template, *inside: str | int) -> str:
    field = template.field(*inside)
    return field if templates.is_of_job(job, field) or job.runtime is None else f"{job.runtime.kind} {field}"


def _doubled(job: Job, template: Template, own: Mapping[int, Mapping[str, Any]]) -> Iterator[Finding]:
    request = ClaimRequest(template, None, (), "from the pod spec", template.field("resourceClaims"))
    users = _users(template)
    uses = [(entry, users.get(entry.get("name"), [])) for entry in own.values()]
    yield from leftovers.judge(job, request, None, uses).problems


def _users(template: Template) -> dict[str | None, list[Path]]:
    """Return the containers that use each claim, by its name in the pod."""
    users: dict[str | None, list[Path]] = {}
    for member in ("containers", "initContainers"):
        for index, container in enumerate(template.raw_spec.get(member) or ()):
            claims = (container.get("resources") or {}).get("claims") or ()
            for name in {claim.get("name"): None for claim in claims}:
                users.setdefault(name, []).append((*template.pod_path, member, index))
    return users


def _field(job: Job, template: Template, index: int, member: str) -> str:
    return f"{_place(job, template, 'resourceClaims', index)}.{member}"
