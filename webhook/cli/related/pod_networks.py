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

from msgspec import Struct, field

from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.frameworks.vllm import health_probes, vllm_servers
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.strategies.launches import addresses, coordinators, networks, readings, sites, topologies
from muster.strategies.launches.launches import Launch
from muster.strategies.launches.written import Seen, Written
from muster.webhook.cli.related import held_containers
from muster.webhook.cli.related.held_containers import Held
from muster.webhook.cli.related.related_documents import Given, Inputs, NetworkPolicy, PolicyRule, Service
from muster.webhook.kubeyaml.sources import Source

__all__ = ["addressed", "policies", "settled", "shared_ports", "targets"]


_SIDES = {"ingress": "be reached by", "egress": "reach"}
_SET = "jobset.sigs.k8s.io/"
_MEETING = 29_500
_RULES = ("core/other-coordinator", "core/unknown-address", "core/fixed-address")
_INDEX = "batch.kubernetes.io/job-completion-index"


def policies(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report policies by which the nodes of a training never meet."""
    place = job.container
    if place is None or topologies.pods_of(job) <= 1:
        return
    template = templates.find_template(job, place.job_path)
    own = _labels(template, job) if template is not None else {}
    labels = {**own, f"{_SET}jobset-name": job.name or "", f"{_SET}replicatedjob-name": place.job_name}
    given = inputs.of_kind(NetworkPolicy, job.namespace)
    selecting = [each for each in given if _matches(each.value.pod_selector, labels)]
    at = ("spec.trainer.numNodes", job.trainer.num_nodes) if job.kind == "TrainJob" else ("spec", None)
    for side, verb in _SIDES.items():
        mine = [each for each in selecting if _is_about(each.value, side)]
        written = [rule for each in mine for rule in each.value.rules(side)]
        if mine and not any(_allows(rule, labels) for rule in written):
            message = (
                f"the NetworkPolicy {mine[0].name} of the input does not let the pods {verb} each other, so the "
                f"nodes never meet; add a rule of {side} with the label {_SET}jobset-name of the pods"
            )
            yield warning(*at, message, rule="core/network-policy")


def _is_about(policy: NetworkPolicy, side: str) -> bool:
    named = policy.policy_types
    return side.capitalize() in named if named else side == "ingress" or policy.egress is not None


def _matches(selector: model.Selector, labels: Mapping[str, str]) -> bool | None:
    """Whether a selector takes the pods; None where that is not known."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return None if any(_is_of_controllers(key, labels) for key in selector.match_labels) else False
    for each in selector.match_expressions:
        if _is_of_controllers(each.key, labels):
            return None
        is_in = labels.get(each.key) in each.values
        held = {"In": is_in, "NotIn": not is_in, "Exists": each.key in labels, "DoesNotExist": each.key not in labels}
        if not held.get(each.operator, True):
            return False
    return True


def _is_of_controllers(key: str, labels: Mapping[str, str]) -> bool:
    return key not in labels and ("k8s.io/" in key or "kubernetes.io/" in key or key == "job-name")


def _allows(rule: PolicyRule, labels: Mapping[str, str]) -> bool:
    """Whether a rule lets pods of the training reach each other, or may."""
    ports = [each.port if not each.end_port else None for each in rule.ports]
    if ports and all(type(each) is int and each != _MEETING for each in ports):
        return False
    if not rule.peers:
        return True
    selectors = [None if each.ip_block is not None else each.pod_selector for each in rule.peers]
    return any(each is None or _matches(each, labels) is not False for each in selectors)


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
        key = source.origin.file, job.namespace, where.address.text, identity.text
        other = inputs.stores.setdefault(key, source)
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
        if service is not None and service.value.selector:
            why = _why_not(service.value, job, where)
            yield where.address, f"the Service {service.name} of {service.origin} {why}" if why else ""


def _why_not(service: Service, job: Job, where: addresses.Place) -> str:
    template = templates.find_template(job, job.world[0].job_path)
    if template is None or not _is_first(service.selector, job, template):
        return "does not select the first pod alone"
    if service.cluster_ip == "None":
        return ""
    if where.kind == "c10d":
        return "has an address of its own, which is not that of a pod that could host the store"
    number = where.number or str(names.DEFAULT_PORT)
    forwarded = {str(each.port) for each in service.ports}
    return "" if "$" in number or number in forwarded else f"does not forward port {number}"


def _service(job: Job, inputs: Inputs, host: str) -> Given[Service] | None:
    """Return the only Service of a name, which may be the full one, or of an address."""
    label, _, rest = host.partition(".")
    within = rest.partition(".")[0]
    found = inputs.named(Service, job.namespace, label) if within in ("", "svc", job.namespace) else []
    if addresses.is_number(host):
        found = [each for each in inputs.of_kind(Service, job.namespace) if each.value.cluster_ip == host]
    return found[0] if len(found) == 1 else None


def _is_first(selector: Mapping[str, str], job: Job, template: Template) -> bool:
    """Whether a selector is that of the first pod of the training, and of no other."""
    name = f"{job.name}-{template.job.name}-0"
    first = {f"{_SET}job-index": "0", "batch.kubernetes.io/job-name": name, "job-name": name, _INDEX: "0"}
    labels = {**_labels(template, job), **first}
    return selector.items() <= labels.items() and _is_alone(selector, job, template)


def _is_alone(selector: Mapping[str, str], job: Job, template: Template) -> bool:
    """Whether no other pod of the set has these labels."""
    one_job = template.job.replicas in (None, 1) or not selector.keys().isdisjoint(
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
        for service in inputs.of_kind(Service, job.namespace):
            targets = _targets(service.value, held, job)
            known = [*held.command, *(each.value for each in held.env)]
            if targets and port not in targets and not any(str(each) in word for each in targets for word in known):
                sent = " and ".join(map(str, targets[:3]))
                message = (
                    f"the server listens at {port}, and the Service {service.name} of {service.origin} "
                    f"sends to {sent}, where nobody answers; make them the same"
                )
                yield held.report(warning, "command", port, message, "core/service-port")


def _listens(held: Held) -> int | None:
    """Return the port of the only server that a container starts, None where it is not known."""
    launch = readings.read(held.command).only if held.command else None
    env = {each.name: each.literal for each in held.env}
    server = vllm_servers.of_launch(launch, env) if launch is not None else None
    return health_probes.port(server) if server is not None and server.certain and not server.open else None


def _targets(service: Service, held: Held, job: Job) -> Sequence[int]:
    """Return the numbers of the ports to which a Service sends, () where it selects other pods, or has a name."""
    selector = service.selector
    if not selector or not selector.items() <= _labels(held.template, job).items():
        return ()
    found = [each.port if each.target_port is None else each.target_port for each in service.ports]
    numbers = [each for each in found if type(each) is int]
    return numbers if len(numbers) == len(found) else ()


def _labels(template: Template, job: Job) -> Mapping[str, str]:
    """Return the labels that all pods of a replicated job have."""
    own = {f"{_SET}jobset-name": job.name or "", f"{_SET}replicatedjob-name": template.job.name}
    return {**next(template.metadata("labels"))[0], **own}


_OF_A_MACHINE = 8
"""GPUs of a usual machine: pods that ask for more together are on several."""


def shared_ports(job: Job, source: Source, inputs: Inputs) -> Iterator[Finding]:
    """Report the second of two jobs; the first is compared with those before it alone."""
    found = networks.opened(job)
    if found is None:
        return
    inputs.ports[source.origin] = source, found
    for origin, (other, opened) in inputs.ports.items():
        if origin == source.origin or origin.file != source.origin.file or opened.port != found.port:
            continue
        one, two = (decoding.read(each.spec, _Pod) for each in (found, opened))
        if (found.devices or 0) + (opened.devices or 0) > _OF_A_MACHINE or _are_apart(one, two):
            continue
        message = (
            f"the first pod opens port {found.port} of its machine, and so does the first pod of the {other.kind} "
            f"of {other.origin}: where both are on one machine, the second job stops; write a port of its own for "
            "each job"
        )
        yield warning(found.field, found.value, message, rule="core/host-port")
        return


class _Affinity(Struct, frozen=True):
    anti: model.Anything = field(name="podAntiAffinity", default={})


class _Pod(Struct, frozen=True, rename="camel"):
    """What says on which machine a pod is; any rule that keeps it apart from others counts."""

    affinity: _Affinity = _Affinity()
    node_name: str = ""
    node_selector: model.Texts = {}


def _are_apart(one: _Pod, other: _Pod) -> bool:
    """Whether two pods are surely, or by a rule of theirs, on different machines."""
    if one.affinity.anti or other.affinity.anti:
        return True
    chosen = [{**each.node_selector, **({"name": each.node_name} if each.node_name else {})} for each in (one, other)]
    return any(chosen[0][key] != chosen[1][key] for key in chosen[0].keys() & chosen[1].keys())
