"""Requests: which devices the pods of a replicated job ask to claim, and where that is written.

A request is the name of a profile, or JSON in the shape of KEP-2782 (`resourceClaimsPerNode`). The nearest one wins: an
annotation of the pod template, then of the replicated job's template, of the TrainJob, of its runtime, or of a JobSet
without a TrainJob; after these the platform's policy for the role, then that for the framework. An annotation above the
replicated job applies to the training job only, never to initializers or other roles. Policy is a default: it does not
apply to a job whose pods bring claims of their own, or that asks for `nvidia.com/gpu` or the like where the profile
does not replace that resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from muster.strategies.claims.notations import AskedClaim, read
from muster.strategies.documents import decoding, loose, model, names, paths
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.documents.paths import Path
from muster.strategies.documents.pods import ResourceRequirements
from muster.strategies.jobs import assignments, templates
from muster.strategies.jobs.jobs import Job, once
from muster.strategies.jobs.templates import Template
from muster.strategies.platform import devices
from muster.strategies.platform.profiles import Profile, has_claim, template_name

__all__ = ["NO_PROFILE", "ClaimRequest", "homeless", "is_of", "list_requests", "may_ask", "of_part", "of_training"]

NO_PROFILE = "none"
"""Value of the annotation that asks for no profile where the policy, or an object further out, names one."""
_KEYS = (names.CLAIM_PROFILE_ANNOTATION, names.RESOURCE_CLAIMS_ANNOTATION)


class ClaimRequest(Struct, frozen=True):
    """What was asked for the pods of one replicated job.

    Attributes:
        template: the replicated job.
        profile: name of the profile, None for none.
        claims: claims asked for beside the profile, by the names of their objects.
        because: where it is written, for reasons: `TrainJob annotation muster.dev/claim-profile`.
        field: field path of the request in the object that holds it.
        problems: findings about parts of the request that cannot be read.
        keeps: whether the pods keep the devices that they ask for in another way, so that none are claimed.
    """

    template: Template
    profile: str | None
    claims: tuple[AskedClaim, ...]
    because: str
    field: str
    problems: tuple[Finding, ...] = ()
    keeps: bool = False


@once
def list_requests(job: Job) -> list[ClaimRequest]:
    """Return the requests of a JobSet, or those that the JobSet of a TrainJob will have; one per replicated job."""
    if not may_ask(job):
        return []
    training = job.container.job_path if job.container else None
    every = templates.list_templates(job)
    found = (_request(job, template, training=template.path == training) for template in every)
    return [request for request in found if request is not None]


def of_training(job: Job) -> ClaimRequest | None:
    """Return the request of the training pods of this part, without looking at the other replicated jobs."""
    place = job.container if may_ask(job) else None
    return None if place is None else of_part(job, place.job_path)


def of_part(job: Job, path: Path) -> ClaimRequest | None:
    """Return the request of the replicated job at `path`, without looking at the others."""
    template = templates.find_template(job, path) if may_ask(job) else None
    if template is None:
        return None
    return _request(job, template, training=job.container is not None and job.container.job_path == path)


def may_ask(job: Job) -> bool:
    """Whether the job may ask for a claim; a quick no for nearly all jobs, since no document or policy mentions one."""
    if not job.supply.asked:
        return False
    if _asks not in job.memory:  # once: what Muster adds asks for nothing
        job.memory[_asks] = (_asks(job),)
    found: bool = job.memory[_asks][0]
    return found


def _asks(job: Job) -> bool:
    if job.settings.profile or any(role.profile for role in job.roles.values()):
        return True
    if any(key in annotations for annotations, _, _ in _around(job) for key in _KEYS):
        return True
    document, path = templates.find_spec(job)
    every = loose.sequence(paths.lookup(document, (*path, "replicatedJobs")))
    return any(not _NAMED.isdisjoint(annotations) for each in every for annotations in _of_template(each))


_NAMED = frozenset(_KEYS)


def _of_template(replicated: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the annotations of a replicated job's template that are there, and those of its pods."""
    template = loose.member(replicated, "template")
    for inside in (template, loose.member(template.get("spec"), "template")):
        if annotations := loose.member(inside.get("metadata"), "annotations"):
            yield annotations


def homeless(job: Job) -> Iterator[tuple[str, str]]:
    """Yield (field path, value) of each request on a job in which no training container can be found."""
    if job.supply.asked and job.container is None and not (job.kind == "TrainJob" and job.runtime is None):
        for annotations, _, place in _around(job):
            for key in _KEYS:
                if key in annotations:
                    yield f"{place}.annotations[{key}]", str(annotations[key])


def is_of(entry: Mapping[str, Any], profile: Profile) -> bool:
    """Whether an entry of a pod's `resourceClaims` is a claim of this profile."""
    if profile.is_shared:
        return has_claim(profile, entry.get("resourceClaimName"))
    return entry.get("resourceClaimTemplateName") == template_name(profile)


def _request(job: Job, template: Template, *, training: bool) -> ClaimRequest | None:
    for notes, because, place in _levels(job, template, training=training):
        if any(key in notes for key in _KEYS):
            return _annotated(template, notes, because, place)
    return _by_policy(job, template, training=training)


def _annotated(template: Template, annotations: Mapping[str, Any], because: str, place: str) -> ClaimRequest | None:
    profile, text = (annotations.get(key) for key in _KEYS)
    key = _KEYS[0] if profile is not None else _KEYS[1]
    claims, problems = ((), ()) if text is None else read(str(text), f"{place}.annotations[{_KEYS[1]}]")
    profile = None if profile in (None, NO_PROFILE) else str(profile)
    if profile is None and text is None:
        return None
    return ClaimRequest(template, profile, claims, f"{because} {key}", f"{place}.annotations[{key}]", problems)


def _by_policy(job: Job, template: Template, *, training: bool) -> ClaimRequest | None:
    name, because, field = None, "", "spec.runtimeRef.name" if job.kind == "TrainJob" else "metadata.labels"
    assigned = assignments.find_assignment(job, template)
    role = job.roles.get(assigned.word) if assigned else None
    if role is not None and assigned is not None and role.profile:
        name, because, field = role.profile, f"the platform's policy for role {role.name}", assigned.field
    elif training and job.settings.profile:
        name, because = job.settings.profile, "the platform's policy for this framework"
    if name is None or _brings_claims(job, template, name):
        return None
    kept = _kept_resource(job, template, name)
    if kept is not None:
        where = template.field(*kept) if job.kind == "JobSet" else f"the training container's {kept[-1]}"
        message = f"kept as the job asks for it; {because} is profile {name}, which does not replace it"
        problem = warning(where, None, message, rule="claims/own-devices")
        return ClaimRequest(template, name, (), because, field, (problem,), keeps=True)
    return ClaimRequest(template, name, (), because, field)


def _brings_claims(job: Job, template: Template, name: str) -> bool:
    profile = job.supply.profiles.get(name)
    entries = template.raw_spec.get("resourceClaims") or ()
    return any(profile is None or not is_of(entry, profile) for entry in entries)


def _kept_resource(job: Job, template: Template, name: str) -> Path | None:
    """Return the path in the pod spec of an extended resource that outranks the policy's profile, None for none.

    A job that asks for its devices as an extended resource gets the policy's profile only if that replaces them.
    """
    profile, main = job.supply.profiles.get(name), template.main
    if profile is None or main is None or not devices.sounds_like_one(profile.device_class):
        return None
    resources = cast("ResourceRequirements", main[1].get("resources") or {})
    own = (
        resource
        for resource in devices.accelerators(decoding.read(resources, model.Resources))
        if resource != profile.replaces
    )
    resource = next(own, None)
    part = "limits" if resource in (resources.get("limits") or {}) else "requests"
    return None if resource is None else (*main[0][-2:], "resources", part, resource)


def _levels(job: Job, template: Template, *, training: bool) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """Yield annotations, where they are written, and the field path of the metadata around them; nearest first."""
    name = template.raw.get("name")
    for (notes, path), part in zip(template.metadata("annotations"), ("pod template's", "template's"), strict=True):
        key = next((each for each in _KEYS if each in notes), _KEYS[0])
        place = template.locate((*path, key)).rpartition(".annotations")[0]
        place = place if templates.is_of_job(job, place) else "spec.runtimeRef.name: metadata"
        yield notes, f"the {part} annotation of job {name}", place
    if training:
        yield from _around(job)


def _around(job: Job) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """Yield the same for the whole job, nearest first; a JobSet of Trainer's only repeats others and comes last."""
    own = (_annotations(job.document), f"{job.kind} annotation", "metadata")
    if job.kind == "TrainJob" or job.owner is None:
        yield own
    if job.owner is not None:
        yield _annotations(job.owner), "TrainJob annotation", "TrainJob metadata"
    if job.runtime is not None:
        yield job.runtime.annotations, "runtime annotation", f"{job.runtime.kind} metadata".lstrip()
    if job.kind == "JobSet" and job.owner is not None:
        yield own


def _annotations(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return (document.get("metadata") or {}).get("annotations") or {}
