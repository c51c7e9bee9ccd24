"""Plans: the claims that a request gives to the pods of one replicated job, or why it gives none.

A claim beside a limit such as `nvidia.com/gpu` takes two devices for one (measured on Kubernetes 1.36 with a class
that maps the resource). So the limit is swapped for the claim where the profile says that it replaces the resource.
Where a class maps the resource instead, Kubernetes makes an exclusive claim for the limit, and Muster adds none.

A request with an error adds nothing at all, so that a job that passes in mode `warn` never gets half of what it asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.claims import leftovers, requests
from muster.strategies.claims.notations import AskedClaim
from muster.strategies.claims.requests import ClaimRequest
from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, Severity, error
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job, once, once_for_part
from muster.strategies.platform.profiles import Profile, template_name

__all__ = ["POD_CLAIM", "ClaimPlan", "Use", "is_queued", "plan_claims", "plan_part", "training"]

POD_CLAIM = "devices"
"""Name of a profile's entry in the pod's `resourceClaims`."""
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class Use(Struct, frozen=True):
    """One claim of the pods.

    Attributes:
        entry: the entry of the pod's `resourceClaims`.
        containers: paths of the containers that use it.
        devices: devices of each claim, None where the allocation decides.
        reason: why it is added, for the person who wrote the job.
    """

    entry: Mapping[str, str]
    containers: tuple[Path, ...]
    devices: int | None
    reason: str


class ClaimPlan(Struct, frozen=True):
    """The claims that follow from one request.

    Attributes:
        request: the request.
        profile: the profile that was asked for, None for none or an unknown one.
        uses: claims that the pods get; empty where nothing is added.
        swapped: extended resources that the claim replaces: path of a container, and name of the resource.
        problems: findings about the request.
    """

    request: ClaimRequest
    profile: Profile | None
    uses: tuple[Use, ...] = ()
    swapped: tuple[tuple[Path, str], ...] = ()
    problems: tuple[Finding, ...] = ()

    @property
    def is_gated(self) -> bool:
        """Whether the pods wait for a seat."""
        return self.profile is not None and self.profile.is_shared and bool(self.uses)

    @property
    def told(self) -> str:
        """What was asked for and by whom, `profile h100x4 (TrainJob annotation muster.dev/claim-profile)`."""
        what = f"profile {self.profile.name}" if self.profile else "the claims asked for"
        return f"{what} ({self.request.because})"


@once
def plan_claims(job: Job) -> list[ClaimPlan]:
    """Return a plan for each request of the job."""
    return [_plan(job, request) for request in requests.list_requests(job)]


@once_for_part
def training(job: Job) -> ClaimPlan | None:
    """Return the plan for the training pods, None where they ask for nothing."""
    request = requests.of_training(job) if job.supply.asked else None
    return None if request is None else _plan(job, request)


def plan_part(job: Job, path: Path) -> ClaimPlan | None:
    """Return the plan for the pods of the replicated job at `path`, None where they ask for nothing."""
    request = requests.of_part(job, path) if job.supply.asked else None
    return None if request is None else _plan(job, request)


def is_queued(job: Job) -> bool:
    """Whether the job waits for Kueue, which never admits a workload that names a ResourceClaim."""
    documents = (job.document, job.owner or {})
    return any(((each.get("metadata") or {}).get("labels") or {}).get(_QUEUE_LABEL) for each in documents)


def _plan(job: Job, request: ClaimRequest) -> ClaimPlan:
    profile = job.supply.profiles.get(request.profile or "")
    if request.keeps:
        return ClaimPlan(request, profile, problems=request.problems)
    problems = [*request.problems, *_unmet(job, request, profile)]
    uses = [] if request.profile is None or profile is None else [_of_profile(job, request, profile)]
    uses += _of_names(job, request)
    problems += _clashes(request, uses, profile)
    if _fails(problems):
        return ClaimPlan(request, profile, problems=tuple(problems))
    verdict = leftovers.judge(job, request, profile, [(use.entry, use.containers) for use in uses])
    problems += verdict.problems
    if verdict.instead or _fails(problems):
        return ClaimPlan(request, profile, problems=tuple(problems))
    return ClaimPlan(request, profile, tuple(uses), verdict.swapped, tuple(problems))


def _fails(problems: list[Finding]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


def _of_profile(job: Job, request: ClaimRequest, profile: Profile) -> Use:
    reason = f"profile {profile.name} gives each pod {_amount(profile)}; asked for by {request.because}"
    containers = tuple(path for path, _ in (_main(request),) if path)
    present = next((dict(each) for each in _entries(request) if requests.is_of(each, profile)), None)
    if not profile.is_shared:
        entry = present or {"name": POD_CLAIM, "resourceClaimTemplateName": template_name(profile)}
        return Use(entry, containers, profile.count, reason)
    claim = present["resourceClaimName"] if present else job.supply.roomiest(profile)
    free = job.supply.free(profile, claim)
    reason = (
        f"profile {profile.name} lets up to {profile.max_sessions} pods share {_amount(profile)}; this claim has "
        f"the most free seats, {free}; asked for by {request.because}"
    )
    return Use(present or {"name": POD_CLAIM, "resourceClaimName": claim}, containers, profile.count, reason)


def _of_names(job: Job, request: ClaimRequest) -> Iterator[Use]:
    """Yield what the request names beside its profile; a claim that names no containers is the training's."""
    main = tuple(path for path, _ in (_main(request),) if path) if request.claims else ()
    containers = {each.get("name"): path for path, each in _containers(request)} if _name_containers(request) else {}
    for asked in request.claims:
        known = job.supply.named.get((asked.kind, asked.object))
        wanted = tuple(containers[name] for name in asked.containers if name in containers)
        reason = f"{asked.kind} {asked.object}, asked for by {request.because}"
        yield Use(asked.entry, wanted if asked.containers else main, known.devices if known else None, reason)


def _name_containers(request: ClaimRequest) -> bool:
    return any(asked.containers for asked in request.claims)


def _amount(profile: Profile) -> str:
    return f"{profile.count} device{'s' if profile.count != 1 else ''} of class {profile.device_class}"


def _main(request: ClaimRequest) -> tuple[Path, Mapping[str, Any]]:
    return request.template.main or ((), {})


def _entries(request: ClaimRequest) -> list[Mapping[str, Any]]:
    return list(request.template.raw_spec.get("resourceClaims") or ())


def _containers(request: ClaimRequest) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    template = request.template
    for member in ("containers", "initContainers"):
        for index, container in enumerate(template.raw_spec.get(member) or ()):
            yield (*template.pod_path, member, index), container


def _unmet(job: Job, request: ClaimRequest, profile: Profile | None) -> Iterator[Finding]:
    """Report the parts of the request that the platform or the cluster lacks, or that Kueue does not admit."""
    if request.profile is not None and profile is None:
        known = ", ".join(sorted(job.supply.profiles)) or "none"
        message = f"the platform has no profile of this name ({request.because}); it offers {known}"
        yield error(request.field, request.profile, message, rule="claims/unknown-profile")
    if profile is not None:
        yield from _unmet_profile(job, request, profile)
    containers = {each.get("name") for _, each in _containers(request)} if _name_containers(request) else set()
    queued = is_queued(job)
    for asked in request.claims:
        for name in asked.containers:
            if name not in containers:
                message = f"replicated job {request.template.raw.get('name')} has no container of this name"
                yield error(f"{asked.field}.containerNames", name, message, rule="claims/unknown-container")
        yield from _unmet_name(job, asked, queued=queued)


def _unmet_profile(job: Job, request: ClaimRequest, profile: Profile) -> Iterator[Finding]:
    if profile.device_class in job.supply.classes and job.supply.classes[profile.device_class] is None:
        message = (
            f"profile {profile.name} asks for devices of class {profile.device_class}, and the cluster has no such "
            "DeviceClass; install the driver that provides it, or correct the profile"
        )
        yield error(request.field, profile.name, message, rule="claims/unknown-class")
    if not is_queued(job):
        return
    if profile.is_shared:
        message = (
            f"profile {profile.name} is shared, so the pods name a ResourceClaim, and Kueue never admits such a job; "
            "use a dedicated profile, or remove the queue label"
        )
        yield error(request.field, profile.name, message, rule="claims/kueue")
    elif profile.config or profile.match_attributes:
        message = (
            f"profile {profile.name} has config or matchAttributes, and Kueue never admits a job whose claims have "
            "them; use another profile, or remove the queue label"
        )
        yield error(request.field, profile.name, message, rule="claims/kueue")


def _unmet_name(job: Job, asked: AskedClaim, *, queued: bool) -> Iterator[Finding]:
    if queued and asked.kind == "ResourceClaim":
        message = (
            "Kueue never admits a job that names a ResourceClaim; name a ResourceClaimTemplate, or remove the queue "
            "label"
        )
        yield error(f"{asked.field}.{asked.member}", asked.object, message, rule="claims/kueue")
    shared = job.supply.maker(asked.object) if asked.kind == "ResourceClaim" else None
    if shared is not None:
        message = (
            f"is a claim of profile {shared.name}, whose seats only Muster assigns; ask for the profile by the "
            f"annotation {names.CLAIM_PROFILE_ANNOTATION}"
        )
        yield error(f"{asked.field}.{asked.member}", asked.object, message, rule="claims/seat")
    elif lacking := job.supply.lacks(asked.kind, asked.object):
        report, message = lacking
        yield report(f"{asked.field}.{asked.member}", asked.object, message, rule="claims/unknown-object")
    elif (known := job.supply.named.get((asked.kind, asked.object))) is not None and known.is_empty:
        message = f"this {asked.kind} asks for 0 devices, so the pods would get none; name another"
        yield error(f"{asked.field}.{asked.member}", asked.object, message, rule="claims/no-devices")


def _clashes(request: ClaimRequest, uses: list[Use], profile: Profile | None) -> Iterator[Finding]:
    """Compare with the claims that the pods bring: one name can mean only one claim."""
    present = {each.get("name"): (index, each) for index, each in enumerate(_entries(request))}
    template = request.template
    for use in uses:
        name = use.entry["name"]
        index, found = present.get(name, (0, None))
        if found is None or dict(found) == use.entry or (profile is not None and requests.is_of(found, profile)):
            continue
        message = f"Muster would add another claim of this name ({use.reason}); rename yours"
        yield error(f"{template.field('resourceClaims', index)}.name", name, message, rule="claims/name-clash")
    labels, path = next(iter(template.metadata("labels")))
    label = labels.get(names.PROFILE_LABEL)
    if profile is not None and label not in (None, profile.name):
        where = template.locate((*path, names.PROFILE_LABEL))
        message = f"Muster sets this label, to {profile.name}; remove it"
        yield error(where, label, message, rule="claims/profile-label")
