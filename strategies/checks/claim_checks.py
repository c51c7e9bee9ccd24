"""Checks of claims: requests that cannot be met, that would take devices twice, or that too many pods would share.

The problems of each plan are reported here; the other checks concern the job as a whole: seats and processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from muster.strategies.claims import handwritten, plans, requests
from muster.strategies.claims.plans import ClaimPlan
from muster.strategies.documents import paths
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs import assignments
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.strategies.launches import sites, topologies
from muster.strategies.launches.sites import Site
from muster.strategies.launches.topologies import Topology
from muster.strategies.platform import devices

__all__ = ["check_claims"]

_SEVERAL = 2
_SHOWN = 5  # holders of seats, or replicated jobs, in one message


def check_claims(job: Job) -> Iterator[Finding]:
    """Check the claims of one TrainJob or JobSet, as it will be stored."""
    for field, value in requests.homeless(job):
        message = "no replicated job is recognised as the training job; set the annotation on the template of one"
        yield error(field, value, message, rule="claims/no-training-job")
    planned = plans.plan_claims(job)
    firsts = {together[0].request.template.path: together for together in _shared(planned)}
    for plan in planned:
        yield from plan.problems
        if together := firsts.get(plan.request.template.path):  # what several share is judged once
            yield from _seats(job, together)
            yield from _apart(job, together)
    yield from handwritten.check(job, planned)
    yield from _one_for_all(job, planned)
    yield from _processes(job)


def _shared(planned: Sequence[ClaimPlan]) -> Iterable[list[ClaimPlan]]:
    """Return the plans of each shared claim: replicated jobs of one profile get seats on the same one."""
    claims: dict[str, list[ClaimPlan]] = {}
    for plan in planned:
        if plan.is_gated:
            claims.setdefault(plan.uses[0].entry["resourceClaimName"], []).append(plan)
    return claims.values()


def _seats(job: Job, together: Sequence[ClaimPlan]) -> Iterator[Finding]:
    plan, every = together[0], [_pods(job, each.request.template) for each in together]
    profile, pods = plan.profile, sum(every)
    field, claim = plan.request.field, plan.uses[0].entry["resourceClaimName"]
    if profile is None:
        return
    if pods > profile.max_sessions:
        named = " and ".join(str(each.request.template.raw.get("name")) for each in together[:_SHOWN])
        who = f"the job's replicated jobs {named} have" if len(together) > 1 else "the job has"
        message = (
            f"{who} {pods} pods on one claim of profile {profile.name}, which has {profile.max_sessions} seats, "
            "so they could never all run; ask for fewer pods, or raise maxSessions of the profile"
        )
        yield error(field, profile.name, message, rule="claims/never-seated")
        return
    if max(every) > 1 and job.runtime is not None and job.runtime.is_torch:
        message = (
            f"the {max(every)} nodes of the job share the devices of one claim, and NCCL refuses two ranks on one GPU; "
            "use a dedicated profile"
        )
        yield warning(field, profile.name, message, rule="claims/shared-by-ranks")
    free = job.supply.free(profile, claim)
    if free >= pods or job.owner is not None:  # when two TrainJobs are created at once, one may still have to wait
        return
    held = _held(job, claim)
    if profile.when_full == "deny":
        message = (
            f"the job needs {_count(pods)}, and no claim of profile {profile.name} has that many; {held}; try again "
            "later"
        )
        yield error(field, profile.name, message, rule="claims/full")
    else:
        message = f"the pods wait for {_count(pods)} of profile {profile.name}; {held}"
        yield warning(field, profile.name, message, rule="claims/full")


def _one_for_all(job: Job, planned: list[ClaimPlan]) -> Iterator[Finding]:
    """Warn about nodes of one training that share the devices of a ResourceClaim which the pods name themselves."""
    place, runtime = job.container, job.runtime
    if not job.supply.named:
        return
    if place is None or runtime is None or runtime.framework == "vllm" or topologies.pods_of(job) < _SEVERAL:
        return
    added = {use.entry["name"] for plan in planned for use in plan.uses}
    document = job.document if job.kind == "JobSet" else runtime.document
    for index, entry in enumerate(place.raw_pod.get("resourceClaims") or ()):
        found = handwritten.find_named(job, entry)
        if entry.get("name") in added or not entry.get("resourceClaimName") or found is None or found.devices == 0:
            continue
        if any(devices.is_accelerator(each) for each in found.classes):
            message = (
                f"the {topologies.pods_of(job)} nodes of the job share the devices of this one claim, and NCCL refuses "
                "two ranks on one GPU; name a ResourceClaimTemplate, of which each pod gets a claim of its own"
            )
            kind = "" if job.kind == "JobSet" else f"{runtime.kind} "
            where = paths.field(
                document, (*place.job_path, "template", "spec", "template", "spec", "resourceClaims", index)
            )
            field = f"{kind}{where}.resourceClaimName"
            yield warning(field, entry["resourceClaimName"], message, rule="claims/shared-by-ranks")


def _apart(job: Job, together: Sequence[ClaimPlan]) -> Iterator[Finding]:
    """Report replicated jobs that share a device, which is on one node, and whose roles have no node in common."""
    first, *others = [(plan, assignments.find_assignment(job, plan.request.template)) for plan in together]
    role = job.roles.get(first[1].word) if first[1] else None
    for plan, assigned in others:
        other = job.roles.get(assigned.word) if assigned else None
        if role is None or other is None or role.name == other.name or plan.profile is None:
            continue
        names = f"{first[0].request.template.raw.get('name')} and {plan.request.template.raw.get('name')}"
        if role.apart or other.apart:
            why = f"roles {role.name} and {other.name} do not share a host"
        elif any(
            set(values).isdisjoint(other.node_labels.get(key, values)) for key, values in role.node_labels.items()
        ):
            why = f"role {role.name} runs on {role.nodes}, and role {other.name} on {other.nodes}"
        else:
            continue
        message = (
            f"{names} share one device of profile {plan.profile.name}, which is on one node, and {why}; use a profile "
            "for each, or let the roles share nodes"
        )
        yield error(plan.request.field, plan.profile.name, message, rule="claims/apart")


def _count(seats: int) -> str:
    return f"{seats} free seat{'s' if seats != 1 else ''}"


def _held(job: Job, claim: str) -> str:
    if claim in job.supply.drained:
        return f"{claim} belongs to an older version of the profile and is replaced when no pod uses it"
    holders = job.supply.seats.get(claim, ())
    told = ", ".join(f"{holder.pod} of job {holder.job}" for holder in holders[:_SHOWN])
    further = sum(holder.seats for holder in holders[_SHOWN:])
    more = f" and {further} more" if further else ""
    return f"{claim} is held by {told}{more}"


def _pods(job: Job, template: Template) -> int:
    return max(1, topologies.pods_of_replicated_job(job, template.job))


def _alternatives(job: Job, site: Site, topology: Topology) -> Iterator[Finding]:
    """Warn about more processes than one of the alternatives of a claim has devices; any of them may be taken."""
    known = [each for each in job.supply.named.values() if each is not None]
    fewest = known[0].fewest if len(known) == 1 and known[0].devices is None else None
    asked = topology.processes or 0
    if fewest and topology.explicit and asked > fewest:
        message = (
            f"starts {asked} processes on each node, and one of the alternatives of its claim has {fewest} devices; "
            "start gpu instead of a number, or give all alternatives the same count"
        )
        yield warning(f"{site.place}.command", asked, message, rule="claims/more-processes-than-devices")


def _processes(job: Job) -> Iterator[Finding]:
    site = sites.find_site(job) if job.claim_devices or job.supply.asked else None
    if site is None:
        return
    found = topologies.read_topology(job)
    topology = topologies.launched(found, site.launch)
    if found.devices.kind != "claim":
        return
    if found.devices.count is None:
        yield from _alternatives(job, site, topology)
        return
    count, field = found.devices.count, f"{site.place}.command"
    if job.kind == "TrainJob" and job.raw_trainer.get("numProcPerNode") == topology.processes:
        field = "spec.trainer.numProcPerNode"
    if count == 0 and any(each is not None and each.is_empty for each in job.supply.named.values()):
        message = "the job's claims ask for 0 devices; name a template or a claim with at least one device"
        yield error(field, count, message, rule="claims/no-devices")
    elif count and topology.explicit and (topology.processes or 0) > count:
        message = (
            f"starts {topology.processes} processes on each node, and its claim has {count} devices; start fewer, or "
            "claim more"
        )
        yield error(field, topology.processes, message, rule="claims/more-processes-than-devices")
