"""Plans: the claims that a request gives to the pods of one replicated job, or why it gives none.

A claim beside a limit such as `nvidia.com/gpu` takes two devices for one (measured on Kubernetes 1.36 with a class
that maps the resource). So the limit is swapped for the claim where the profile says that it replaces the resource.
Where a class maps the resource instead, Kubernetes makes an exclusive claim for the limit, and Muster adds none.

A request with an error adds nothing at all, so that a job that passes in mode `warn` never gets half of what it asked
for.

Additions: a plan is written to a JobSet when it is created.

Only the replaced limit is removed, and that is remembered like every change: Trainer applies the limit again at each
suspend and resume, and `restores` then removes it again. Everything else is added, has no field owner, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import leftovers, requests
from muster.strategies.claims.requests import AskedClaim, ClaimRequest
from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, Severity, error
from muster.strategies.documents.model import PodClaim
from muster.strategies.documents.paths import Absent, Path
from muster.strategies.jobs.jobs import Job, once, once_for_part
from muster.strategies.platform.profiles import Profile, template_name

__all__ = ["POD_CLAIM", "ClaimPlan", "Use", "enforce", "is_queued", "plan_claims", "plan_part", "training"]


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

    entry: PodClaim
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
    owner = job.owning.metadata.labels if job.owning else {}
    return bool(job.metadata.labels.get(_QUEUE_LABEL) or owner.get(_QUEUE_LABEL))


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
    present = next((each for each in request.template.pod.resource_claims if requests.is_of(each, profile)), None)
    if not profile.is_shared:
        entry = present or PodClaim(POD_CLAIM, resource_claim_template_name=template_name(profile))
        return Use(entry, _main(request), profile.count, reason)
    claim = present.resource_claim_name if present else job.supply.roomiest(profile)
    free = job.supply.free(profile, claim)
    reason = (
        f"profile {profile.name} lets up to {profile.max_sessions} pods share {_amount(profile)}; this claim has "
        f"the most free seats, {free}; asked for by {request.because}"
    )
    return Use(present or PodClaim(POD_CLAIM, claim), _main(request), profile.count, reason)


def _of_names(job: Job, request: ClaimRequest) -> Iterator[Use]:
    """Yield what the request names beside its profile; a claim that names no containers is the training's."""
    containers = _containers(request)
    for asked in request.claims:
        known = job.supply.named.get((asked.kind, asked.object))
        wanted = tuple(containers[name] for name in asked.containers if name in containers)
        reason = f"{asked.kind} {asked.object}, asked for by {request.because}"
        yield Use(asked.entry, wanted if asked.containers else _main(request), known.devices if known else None, reason)


def _amount(profile: Profile) -> str:
    return f"{profile.count} device{'s' if profile.count != 1 else ''} of class {profile.device_class}"


def _main(request: ClaimRequest) -> tuple[Path, ...]:
    """Return the path of the container that does the work, none where there is none."""
    main = request.template.main
    return () if main is None else (main[0],)


def _containers(request: ClaimRequest) -> dict[str, Path]:
    """Return the paths of the containers by their names."""
    template = request.template
    return {container.name: (*template.pod_path, *inside) for inside, container in template.containers}


def _unmet(job: Job, request: ClaimRequest, profile: Profile | None) -> Iterator[Finding]:
    """Report the parts of the request that the platform or the cluster lacks, or that Kueue does not admit."""
    if request.profile is not None and profile is None:
        known = ", ".join(sorted(job.supply.profiles)) or "none"
        message = f"the platform has no profile of this name ({request.because}); it offers {known}"
        yield error(request.field, request.profile, message, rule="claims/unknown-profile")
    if profile is not None:
        yield from _unmet_profile(job, request, profile)
    containers = _containers(request)
    queued = is_queued(job)
    for asked in request.claims:
        for name in asked.containers:
            if name not in containers:
                message = f"replicated job {request.template.job.name} has no container of this name"
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
    present = {each.name: (index, each) for index, each in enumerate(request.template.pod.resource_claims)}
    template = request.template
    for use in uses:
        name = use.entry.name
        index, found = present.get(name, (0, None))
        if found is None or found == use.entry or (profile is not None and requests.is_of(found, profile)):
            continue
        message = f"Muster would add another claim of this name ({use.reason}); rename yours"
        yield error(f"{template.field('resourceClaims', index)}.name", name, message, rule="claims/name-clash")
    labels, path = next(iter(template.metadata("labels")))
    label = labels.get(names.PROFILE_LABEL)
    if profile is not None and label not in (None, profile.name):
        where = template.locate((*path, names.PROFILE_LABEL))
        message = f"Muster sets this label, to {profile.name}; remove it"
        yield error(where, label, message, rule="claims/profile-label")


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
    own = training(job) if job.part else None
    planned = plan_claims(job) if not job.part else [own] if own else []
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
