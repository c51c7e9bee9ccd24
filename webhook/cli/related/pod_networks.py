"""Networks: what NetworkPolicies, Services and other jobs of the input do to the addresses and ports of a job.

Where policies select a pod, only what one of them allows reaches it, or is reached by it (Kubernetes documentation,
Network Policies). What Muster cannot read of a rule is taken as allowing. The network has to enforce policies.

A Service without an address of its own resolves to its pods, and any other forwards the ports that it names (Service).
A number in `targetPort` needs no `containerPort`, and goes to the program that listens there; a name goes to the
container that gives it (kubernetes `pkg/apis/core/types.go` ServicePort, `pkg/api/pod/util.go` FindPort). A store of
c10d is hosted by the pod that finds its own address or name in the endpoint, and no pod has that of a Service (torch
`elastic/rendezvous/utils.py` _matches_machine_hostname).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.frameworks.vllm import health_probes, vllm_servers
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.strategies.launches import addresses, coordinators, networks, readings, sites, topologies
from muster.strategies.launches.launches import Launch
from muster.strategies.launches.networks import Opened
from muster.strategies.launches.written import Seen, Written
from muster.webhook.cli.related import held_containers
from muster.webhook.cli.related.held_containers import Held
from muster.webhook.cli.related.related_documents import Inputs, items, member, name_of
from muster.webhook.kubeyaml.sources import Source

__all__ = ["addressed", "policies", "settled", "shared_ports", "targets"]


_SIDES = {"Ingress": ("ingress", "from", "be reached by"), "Egress": ("egress", "to", "reach")}
_SET = "jobset.sigs.k8s.io/"
_MEETING = 29_500


def policies(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report policies by which the nodes of a training never meet."""
    place = job.container
    if place is None or topologies.pods_of(job) <= 1:
        return
    template = templates.find_template(job, place.job_path)
    own = _labels(template, job) if template is not None else {}
    labels = {**own, f"{_SET}jobset-name": job.name, f"{_SET}replicatedjob-name": place.raw_job.get("name")}
    given = [each.document for each in inputs.of_kind("NetworkPolicy", job.namespace)]
    selecting = [each for each in given if _matches(member(each, "spec", "podSelector"), labels) is True]
    at = ("spec.trainer.numNodes", job.trainer.num_nodes) if job.kind == "TrainJob" else ("spec", None)
    for side, (rules, peers, verb) in _SIDES.items():
        mine = [each for each in selecting if _is_about(member(each, "spec"), side)]
        written = [rule for each in mine for rule in items(member(each, "spec"), rules)]
        if mine and not any(_allows(rule, peers, labels) for rule in written):
            message = (
                f"the NetworkPolicy {name_of(mine[0])} of the input does not let the pods {verb} each other, so the "
                f"nodes never meet; add a rule of {rules} with the label {_SET}jobset-name of the pods"
            )
            yield warning(*at, message, rule="core/network-policy")


def _is_about(spec: Mapping[str, Any], side: str) -> bool:
    named = spec.get("policyTypes")
    if isinstance(named, list) and named:
        return side in named
    return side == "Ingress" or "egress" in spec


def _matches(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool | None:
    """Whether a selector takes the pods; None where that is not known."""
    if any(labels.get(key) != value for key, value in member(selector, "matchLabels").items()):
        return None if any(_is_of_controllers(key, labels) for key in member(selector, "matchLabels")) else False
    for each in items(selector, "matchExpressions"):
        key, values = str(each.get("key")), each.get("values")
        values = values if isinstance(values, list) else []
        if _is_of_controllers(key, labels):
            return None
        held = {"In": labels.get(key) in values, "NotIn": labels.get(key) not in values}
        held |= {"Exists": key in labels, "DoesNotExist": key not in labels}
        if not held.get(str(each.get("operator")), True):
            return False
    return True


def _is_of_controllers(key: str, labels: Mapping[str, Any]) -> bool:
    return key not in labels and ("k8s.io/" in key or "kubernetes.io/" in key or key == "job-name")


def _allows(rule: Mapping[str, Any], peers: str, labels: Mapping[str, Any]) -> bool:
    """Whether a rule lets pods of the training reach each other, or may."""
    ports = [each.get("port") if not each.get("endPort") else None for each in items(rule, "ports")]
    if ports and all(type(each) is int and each != _MEETING for each in ports):
        return False
    listed = items(rule, peers)
    return not listed or any(_is_peer(each, labels) for each in listed)


def _is_peer(peer: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    if "ipBlock" in peer or "podSelector" not in peer:
        return True
    return _matches(member(peer, "podSelector"), labels) is not False


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


def addressed(job: Job, source: Source, inputs: Inputs) -> Iterator[Finding]:
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
    return selector.items() <= _first_labels(job, template).items() and _is_alone(selector, job, template)


def _first_labels(job: Job, template: Template) -> dict[str, Any]:
    """Return the labels of the first pod of a replicated job that tell it from others."""
    name = f"{job.name}-{template.raw.get('name')}-0"
    first = {f"{_SET}job-index": "0", "batch.kubernetes.io/job-name": name, "job-name": name, _INDEX: "0"}
    return {**_labels(template, job), **first}


def _is_alone(selector: Mapping[str, Any], job: Job, template: Template) -> bool:
    """Whether no other pod of the set has these labels."""
    one_job = template.raw.get("replicas") in (None, 1) or not selector.keys().isdisjoint(
        {f"{_SET}job-index", "batch.kubernetes.io/job-name", "job-name"}
    )
    others = len(templates.list_templates(job)) > 1
    of_part = {f"{_SET}replicatedjob-name", "batch.kubernetes.io/job-name", "job-name"}
    return _INDEX in selector and one_job and not (others and selector.keys().isdisjoint(of_part))


def targets(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report a server of vLLM that a Service of its pods does not reach, where it is all that the pods start."""
    every = list(held_containers.containers(job))
    for held in every:
        beside = [each for each in every if each.template is held.template]
        port = _listens(held) if len(beside) == 1 else None
        if port is None:
            continue
        for service in inputs.of_kind("Service", job.namespace):
            targets = _targets(service.document, held, job)
            known = _words(held)
            if targets and port not in targets and not any(str(each) in word for each in targets for word in known):
                sent = " and ".join(map(str, targets[:3]))
                message = (
                    f"the server listens at {port}, and the Service {name_of(service.document)} of {service.origin} "
                    f"sends to {sent}, where nobody answers; make them the same"
                )
                yield held.report(warning, "command", port, message, "core/service-port")


def _listens(held: Held) -> int | None:
    """Return the port of the only server that a container starts, None where it is not known."""
    launch = readings.read(held.command).only if held.command else None
    env = {each.name: each.literal for each in decoding.read({"env": held.env}, model.Container).env}
    server = vllm_servers.of_launch(launch, env) if launch is not None else None
    return health_probes.port(server) if server is not None and server.certain and not server.open else None


def _targets(service: Mapping[str, Any], held: Held, job: Job) -> Sequence[int]:
    """Return the numbers of the ports to which a Service sends, () where it selects other pods, or has a name."""
    spec = member(service, "spec")
    selector, ports = member(spec, "selector"), items(spec, "ports")
    if not selector or not selector.items() <= _labels(held.template, job).items():
        return ()
    found = [each.get("targetPort", each.get("port")) for each in ports]
    return [each for each in found if type(each) is int] if all(type(each) is int for each in found) else ()


def _labels(template: Template, job: Job) -> Mapping[str, Any]:
    """Return the labels that all pods of a replicated job have."""
    own = {f"{_SET}jobset-name": job.name, f"{_SET}replicatedjob-name": template.raw.get("name")}
    return {**next(template.metadata("labels"))[0], **own}


def _words(held: Held) -> Sequence[str]:
    """Return what else may name a port at which the pod listens."""
    return [*held.command, *(str(each.get("value") or "") for each in held.env)]


_OF_A_MACHINE = 8
"""GPUs of a usual machine: pods that ask for more together are on several."""


def shared_ports(job: Job, source: Source, inputs: Inputs) -> Iterator[Finding]:
    """Report the second of two jobs; the first is compared with those before it alone."""
    found = networks.opened(job)
    if found is None:
        return
    kept: dict[Any, tuple[Source, Opened]] = inputs.memory.setdefault("ports", {})
    kept[source.origin] = source, found
    for origin, (other, opened) in kept.items():
        if origin == source.origin or origin.file != source.origin.file or opened.port != found.port:
            continue
        if (found.devices or 0) + (opened.devices or 0) > _OF_A_MACHINE or _are_apart(found.spec, opened.spec):
            continue
        message = (
            f"the first pod opens port {found.port} of its machine, and so does the first pod of the {other.kind} "
            f"of {other.origin}: where both are on one machine, the second job stops; write a port of its own for "
            "each job"
        )
        yield warning(found.field, found.value, message, rule="core/host-port")
        return


def _are_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two pods are surely, or by a rule of theirs, on different machines."""
    if any(member(each, "affinity", "podAntiAffinity") for each in (one, other)):
        return True
    chosen = [{**member(each, "nodeSelector"), "name": each.get("nodeName")} for each in (one, other)]
    shared = chosen[0].keys() & chosen[1].keys()
    return any(None not in (values := [each[key] for each in chosen]) and values[0] != values[1] for key in shared)
