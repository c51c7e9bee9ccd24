"""Meetings: an address of the coordinator that is the name, or the address, of a Service of the input.

A Service without an address of its own resolves to its pods, and any other forwards the ports that it names
(Kubernetes documentation, Service). A store of c10d is hosted by the pod that finds its own address or name in the
endpoint, and no pod has that of a Service (torch `elastic/rendezvous/utils.py` _matches_machine_hostname).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.strategies.launches import addresses, coordinators, sites, topologies
from muster.strategies.launches.launches import Launch
from muster.strategies.launches.written import Seen, Written
from muster.webhook.cli.related.related_documents import Inputs, items, member, name_of
from muster.webhook.kubeyaml.sources import Source

__all__ = ["check", "settled"]

_RULES = ("core/other-coordinator", "core/unknown-address", "core/fixed-address")
_SET = "jobset.sigs.k8s.io/"
_INDEX = "batch.kubernetes.io/job-completion-index"


def settled(job: Job, inputs: Inputs) -> frozenset[tuple[str, str]]:
    """Return the rules and fields of what is said of an address before the Services of the input are known.

    Args:
        job: the job as it will be stored.
        inputs: all documents of the input.
    """
    return frozenset((rule, written.field) for written, _ in _answers(job, inputs) for rule in _RULES)


def check(job: Job, source: Source, inputs: Inputs) -> Iterator[Finding]:
    """Report an address that a Service of the input has, and that does not lead to the first pod, and shared ids."""
    yield from _shared(job, source, inputs)
    coordinator = coordinators.find_coordinator(job)
    for written, why in _answers(job, inputs):
        if why and coordinator is not None:
            message = f"{why}, so the nodes do not meet; write {coordinator.host}"
            yield warning(written.field, written.shown, message, rule="core/unknown-address")


def _shared(job: Job, source: Source, inputs: Inputs) -> Iterator[Finding]:
    """Report an id of a store of etcd that another job of the file has there too."""
    for seen, launch in _launches(job):
        where, identity = addresses.find(seen, launch), seen.setting(launch, "rdzv_id")
        if where.address is None or identity is None or not where.kind.startswith("etcd") or "$" in identity.text:
            continue
        key = "ids", source.origin.file, job.namespace, where.address.text, identity.text
        other: Source = inputs.memory.setdefault(key, source)
        if other.origin != source.origin:
            message = (
                f"the {other.kind} of {other.origin} has this id at the same etcd, so the nodes of both meet each "
                "other; write an id of its own for each"
            )
            yield warning(identity.field, identity.shown, message, rule="core/rdzv-id")


def _launches(job: Job) -> Iterator[tuple[Seen, Launch]]:
    site, place = sites.find_site(job), job.container
    if site is not None and place is not None and job.owner is None:
        seen = Seen(job, site, place, topologies.pods_of(job))
        yield from ((seen, launch) for launch in site.reading.launches)


def _answers(job: Job, inputs: Inputs) -> Iterator[tuple[Written, str]]:
    """Yield the addresses that a Service has, and why it does not lead to the first pod, "" where it does."""
    for seen, launch in _launches(job):
        where = addresses.find(seen, launch)
        if where.address is None or where.kind.startswith("etcd"):
            continue
        service = _service(job, inputs, addresses.host_of(where.address.text))
        if service is not None and member(service.document, "spec", "selector"):
            why = _why_not(member(service.document, "spec"), job, where)
            yield where.address, f"the Service {name_of(service.document)} of {service.origin} {why}" if why else ""


def _why_not(spec: Mapping[str, Any], job: Job, where: addresses.Place) -> str:
    template = templates.find_template(job, job.world[0].job_path)
    if template is None or not _is_first(member(spec, "selector"), job, template):
        return "does not select the first pod alone"
    if spec.get("clusterIP") == "None":
        return ""
    if where.kind == "c10d":
        return "has an address of its own, which is not that of a pod that could host the store"
    number = where.number or str(names.DEFAULT_PORT)
    forwarded = {str(each.get("port")) for each in items(spec, "ports")}
    return "" if "$" in number or number in forwarded else f"does not forward port {number}"


def _service(job: Job, inputs: Inputs, host: str) -> Source | None:
    """Return the only Service of a name, which may be the full one, or of an address."""
    label, _, rest = host.partition(".")
    within = rest.partition(".")[0]
    found = inputs.named("Service", job.namespace, label) if within in ("", "svc", job.namespace) else []
    if addresses.is_number(host):
        every = inputs.of_kind("Service", job.namespace)
        found = [each for each in every if member(each.document, "spec").get("clusterIP") == host]
    return found[0] if len(found) == 1 else None


def _is_first(selector: Mapping[str, Any], job: Job, template: Template) -> bool:
    """Whether a selector is that of the first pod of the training, and of no other."""
    return selector.items() <= _labels(job, template).items() and _is_alone(selector, job, template)


def _labels(job: Job, template: Template) -> dict[str, Any]:
    """Return the labels of the first pod of a replicated job that tell it from others."""
    name = template.raw.get("name")
    own = {
        f"{_SET}jobset-name": job.name,
        f"{_SET}replicatedjob-name": name,
        f"{_SET}job-index": "0",
        "batch.kubernetes.io/job-name": f"{job.name}-{name}-0",
        "job-name": f"{job.name}-{name}-0",
        _INDEX: "0",
    }
    return {**next(template.metadata("labels"))[0], **own}


def _is_alone(selector: Mapping[str, Any], job: Job, template: Template) -> bool:
    """Whether no other pod of the set has these labels."""
    one_job = template.raw.get("replicas") in (None, 1) or not selector.keys().isdisjoint(
        {f"{_SET}job-index", "batch.kubernetes.io/job-name", "job-name"}
    )
    others = len(templates.list_templates(job)) > 1
    of_part = {f"{_SET}replicatedjob-name", "batch.kubernetes.io/job-name", "job-name"}
    return _INDEX in selector and one_job and not (others and selector.keys().isdisjoint(of_part))
