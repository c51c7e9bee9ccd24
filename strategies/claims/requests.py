"""Requests: which devices the pods of a replicated job ask to claim, and where that is written.

A request is the name of a profile, or JSON in the shape of KEP-2782 (`resourceClaimsPerNode`). The nearest one wins: an
annotation of the pod template, then of the replicated job's template, of the TrainJob, of its runtime, or of a JobSet
without a TrainJob; after these the platform's policy for the role, then that for the framework. An annotation above the
replicated job applies to the training job only, never to initializers or other roles. Policy is a default: it does not
apply to a job whose pods bring claims of their own, or that asks for `nvidia.com/gpu` or the like where the profile
does not replace that resource.

Notations: how the annotation `muster.dev/resource-claims` is read.

Its JSON has the shape of `resourceClaimsPerNode` in KEP-2782 (kubeflow/trainer#3540), a list of `{name,
resourceClaimTemplateName}`, so that a job can move to the field when Trainer has it. An earlier draft of that shape had
`resourceClaimName` and `containerNames`; both are read, and a note says that the field will not take them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, error, note, warning
from muster.strategies.documents.model import PodClaim
from muster.strategies.documents.paths import Path
from muster.strategies.documents.pods import CLAIM_SOURCES
from muster.strategies.jobs import assignments, templates
from muster.strategies.jobs.jobs import Job, once
from muster.strategies.jobs.templates import Template
from muster.strategies.platform import devices
from muster.strategies.platform.profiles import Profile, has_claim, template_name

__all__ = [
    "NO_PROFILE",
    "AskedClaim",
    "ClaimRequest",
    "homeless",
    "is_of",
    "list_requests",
    "may_ask",
    "of_part",
    "of_training",
    "read",
]


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
    every = (each.template for each in job.jobset.replicated_jobs)
    notes = (held for each in every for held in (each.metadata.annotations, each.spec.template.metadata.annotations))
    return any(key in held for held in notes if held for key in _KEYS)


def homeless(job: Job) -> Iterator[tuple[str, str]]:
    """Yield (field path, value) of each request on a job in which no training container can be found."""
    if job.supply.asked and job.container is None and not (job.kind == "TrainJob" and job.runtime is None):
        for annotations, _, place in _around(job):
            for key in _KEYS:
                if key in annotations:
                    yield f"{place}.annotations[{key}]", str(annotations[key])


def is_of(entry: PodClaim, profile: Profile) -> bool:
    """Whether an entry of a pod's `resourceClaims` is a claim of this profile."""
    if profile.is_shared:
        return has_claim(profile, entry.resource_claim_name)
    return entry.resource_claim_template_name == template_name(profile)


def _request(job: Job, template: Template, *, training: bool) -> ClaimRequest | None:
    for notes, because, place in _levels(job, template, training=training):
        if any(key in notes for key in _KEYS):
            return _annotated(template, notes, because, place)
    return _by_policy(job, template, training=training)


def _annotated(template: Template, annotations: Mapping[str, str], because: str, place: str) -> ClaimRequest | None:
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
    return any(profile is None or not is_of(entry, profile) for entry in template.pod.resource_claims)


def _kept_resource(job: Job, template: Template, name: str) -> Path | None:
    """Return the path in the pod spec of an extended resource that outranks the policy's profile, None for none.

    A job that asks for its devices as an extended resource gets the policy's profile only if that replaces them.
    """
    profile, main = job.supply.profiles.get(name), template.main
    if profile is None or main is None or not devices.sounds_like_one(profile.device_class):
        return None
    resources = main[1].resources
    own = (resource for resource in devices.accelerators(resources) if resource != profile.replaces)
    resource = next(own, None)
    part = "limits" if resource in resources.limits else "requests"
    return None if resource is None else (*main[0][-2:], "resources", part, resource)


def _levels(job: Job, template: Template, *, training: bool) -> Iterator[tuple[Mapping[str, str], str, str]]:
    """Yield annotations, where they are written, and the field path of the metadata around them; nearest first."""
    name = template.job.name
    for (notes, path), part in zip(template.metadata("annotations"), ("pod template's", "template's"), strict=True):
        key = next((each for each in _KEYS if each in notes), _KEYS[0])
        place = template.locate((*path, key)).rpartition(".annotations")[0]
        place = place if templates.is_of_job(job, place) else "spec.runtimeRef.name: metadata"
        yield notes, f"the {part} annotation of job {name}", place
    if training:
        yield from _around(job)


def _around(job: Job) -> Iterator[tuple[Mapping[str, str], str, str]]:
    """Yield the same for the whole job, nearest first; a JobSet of Trainer's only repeats others and comes last."""
    own = (job.metadata.annotations, f"{job.kind} annotation", "metadata")
    if job.owning is None:
        yield own
    else:
        yield job.owning.metadata.annotations, "TrainJob annotation", "TrainJob metadata"
    if job.runtime is not None:
        yield job.runtime.annotations, "runtime annotation", f"{job.runtime.kind} metadata".lstrip()
    if job.owning is not None:
        yield own


_RULE = "claims/notation"
_MOST = 32  # claims of one pod; Kubernetes allows 256, more than there are kinds of devices
_MOST_CONTAINERS = 256  # that use one claim
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_KNOWN = {"name", "containerNames", *CLAIM_SOURCES}


class AskedClaim(Struct, frozen=True):
    """One claim of each pod.

    Attributes:
        name: name of the entry in the pod's `resourceClaims`.
        member: `resourceClaimName` or `resourceClaimTemplateName`.
        object: name of the object.
        containers: names of the containers that use it; empty for the training container.
        field: field path of the entry.
    """

    name: str
    member: str
    object: str
    containers: tuple[str, ...]
    field: str

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return CLAIM_SOURCES[self.member]

    @property
    def entry(self) -> PodClaim:
        """The entry of `resourceClaims`."""
        if self.member == "resourceClaimName":
            return PodClaim(self.name, resource_claim_name=self.object)
        return PodClaim(self.name, resource_claim_template_name=self.object)


def read(text: str, field: str) -> tuple[tuple[AskedClaim, ...], tuple[Finding, ...]]:
    """Return the claims and notes about them, or no claims and the errors in the text.

    Args:
        text: the annotation's value.
        field: its field path.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as bad:
        return (), (error(field, text, f"is not JSON ({bad}); write a list such as {_EXAMPLE}", rule=_RULE),)
    if not isinstance(entries, list) or len(entries) > _MOST:
        message = f"must be a list of at most {_MOST} claims, such as {_EXAMPLE}"
        return (), (error(field, text, message, rule=_RULE),)
    problems = [problem for index, entry in enumerate(entries) for problem in _problems(entry, f"{field}[{index}]")]
    if problems:
        return (), tuple(problems)
    claims = tuple(_asked(entry, f"{field}[{index}]") for index, entry in enumerate(entries))
    called = Counter(each.name for each in claims)
    twice = [each for each in claims if called[each.name] > 1]
    if twice:
        message = "is the name of two claims; each claim of a pod needs its own name"
        return (), (error(f"{twice[-1].field}.name", twice[-1].name, message, rule=_RULE),)
    return claims, tuple(note for index, entry in enumerate(entries) for note in _drafted(entry, f"{field}[{index}]"))


def _drafted(entry: Mapping[str, Any], field: str) -> Iterator[Finding]:
    for member, cure in _DRAFT.items():
        if entry.get(member):
            message = f"is of an earlier draft of KEP-2782: Muster reads it, Trainer's field will not; {cure}"
            yield note(f"{field}.{member}", None, message, rule="claims/draft")


_DRAFT = {
    "resourceClaimName": "remove it, and write the claim that the pods share into resourceClaims of the runtime's pods",
    "containerNames": "remove it: the training container gets the claim; write other claims into the runtime",
}
_EXAMPLE = '[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]'


def _asked(entry: Mapping[str, Any], field: str) -> AskedClaim:
    member = next(member for member in CLAIM_SOURCES if entry.get(member) is not None)
    return AskedClaim(entry["name"], member, entry[member], tuple(entry.get("containerNames") or ()), field)


def _problems(entry: Any, field: str) -> Iterator[Finding]:
    if not isinstance(entry, dict):
        yield error(field, _shown(entry), f"must be an object, as in {_EXAMPLE}", rule=_RULE)
        return
    for member in sorted(entry.keys() - _KNOWN):
        message = f"is not a member of a claim; the members are {', '.join(sorted(_KNOWN))}"
        yield error(f"{field}.{_shown(member)}", _shown(entry[member]), message, rule=_RULE)
    if not _is(entry.get("name"), _LABEL):
        shown = _shown(entry.get("name"))
        yield error(f"{field}.name", shown, "must be a DNS label of at most 63 characters", rule=_RULE)
    given = [member for member in CLAIM_SOURCES if entry.get(member) is not None]
    if len(given) != 1:
        yield error(field, _shown(entry), f"must have exactly one of {' and '.join(CLAIM_SOURCES)}", rule=_RULE)
    for member in given:
        if not _is(entry[member], _SUBDOMAIN):
            yield error(f"{field}.{member}", _shown(entry[member]), "must be the name of an object", rule=_RULE)
    containers = entry.get("containerNames")
    if containers is not None and not _are_names(containers):
        message = f"must be a list of at most {_MOST_CONTAINERS} container names"
        yield error(f"{field}.containerNames", _shown(containers), message, rule=_RULE)


def _are_names(containers: Any) -> bool:
    few = isinstance(containers, list) and len(containers) <= _MOST_CONTAINERS
    return few and all(_is(each, _LABEL) for each in containers)


def _is(value: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _shown(value: Any) -> str | None:
    """Return a value that any log can hold: JSON may escape lone surrogates, which UTF-8 cannot encode."""
    if value is None or (isinstance(value, str) and value.isprintable() and value.isascii()):
        return value
    return json.dumps(value)
