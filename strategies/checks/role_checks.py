"""Checks of roles: what would keep the pods of a role from ever running, reported before they wait.

Muster only narrows placement. Of what a user wrote, only certain contradictions are reported: the job requires other
values of the very labels that the platform declares for each node of the role.

Hosts: pods that ask for a host which cannot hold them, so that they wait for ever.

Sources: kubernetes `pkg/scheduler/framework/plugins` nodeports, interpodaffinity and noderesources,
`pkg/apis/core/v1/defaults.go` defaultHostNetworkPorts; jobset `pkg/webhooks/pod_mutating_webhook.go` (exclusive
topology); the labels of GPU feature discovery and of AMD's node labeller. How many devices a node has nobody but the
cluster knows: no host is known with more than 16 GPUs, and more is a warning.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.claims import requests
from muster.strategies.documents import decoding, names, paths, quantities
from muster.strategies.documents.findings import Finding, Severity, error, warning
from muster.strategies.documents.model import Expression, NodeTerm, PodAffinity, PodSpec, Selector, Taint, Toleration
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import assignments
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates, placed
from muster.strategies.platform import machines
from muster.strategies.platform.placements import KNOWN, Node, Role
from muster.strategies.roles import role_additions
from muster.strategies.roles.role_additions import REQUIRED, is_empty, tolerates

__all__ = ["Fault", "Nodes", "check_roles", "faults", "lets"]


Nodes = Callable[[Role], Iterable[Node]]
"""Returns the known nodes of a role, none where the cluster cannot be asked."""

_TRANSIENT = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_GIB = 1024**3
_OF_RUNTIME = "spec.template."


def check_roles(job: Job, nodes: Nodes) -> list[Finding]:
    """Check the roles of a JobSet, or of the JobSet that a TrainJob will become; only words where none is configured.

    Args:
        job: the job as it will be stored.
        nodes: returns the cluster's nodes of a role.
    """
    found: list[Finding] = []
    asked = requests.list_requests(job) if job.roles else ()
    profiles = {each.template.path: job.supply.profiles.get(each.profile or "") for each in asked}
    for template in list_templates(job):
        profile = profiles.get(template.path)
        for each in _template(job, template, profile.memory if profile else None, nodes):
            finding = placed(job, each) if each.field.startswith(_OF_RUNTIME) else each
            if finding not in found:  # one label may speak for several replicated jobs
                found.append(finding)
    return found


def _template(job: Job, template: Template, memory: str | None, nodes: Nodes) -> Iterator[Finding]:
    assigned = assignments.find_assignment(job, template)
    if assigned is None:
        return
    if assigned.word not in KNOWN:
        message = f"is not a role; use {' or '.join(KNOWN)}, or remove the label"
        report = error if job.roles else warning  # without placements the job runs, and its pods have no role
        yield report(assigned.field, assigned.word, message, rule="roles/label")
    if assigned.word not in KNOWN or not job.roles:
        return
    for other in assignments.within(template):
        if other.word != assigned.word:
            message = f"{assigned.where} says {assigned.word}, and a replicated job has one role; remove one label"
            yield error(other.field, other.word, message, rule="roles/label")
    role = job.roles.get(assigned.word)
    if role is None:
        message = f"the configuration has no placement for role {assigned.word}, so its pods run anywhere"
        yield warning(assigned.field, assigned.word, message, rule="roles/label")
        return
    yield from _contradictions(template, role)
    yield from _on_nodes(template, role, role_additions.planned(template, memory), nodes(role))


def _on_nodes(template: Template, role: Role, wanted: int, nodes: Iterable[Node]) -> Iterator[Finding]:
    """Compare memory and taints with the role's known nodes; once both can be met, the other nodes are not read."""
    tolerations = [*template.pod.tolerations, *(decoding.read(each, Toleration) for each in role.tolerations)]
    owned, largest, roomy, refused = 0, 0, False, True
    taint: Taint | None = None
    for node in nodes:
        owned, largest = owned + 1, max(largest, node.memory or 0)
        roomy = roomy or node.memory is None or wanted <= node.memory
        kept_off = [each for each in node.taints if _stays(each) and not tolerates(tolerations, each)]
        taint = taint or next(iter(kept_off), None)
        refused = refused and bool(kept_off)
        if roomy and not refused:
            return
    if owned and not roomy:
        yield _too_large(template, role, wanted, largest, owned)
    if taint is not None and refused:
        spoken = f"{taint.key}={taint.value}:{taint.effect}"
        message = f"the pods tolerate the taints of none of the {owned} nodes of role {role.name}, such as {spoken}"
        hint = f"add a toleration to roles.{role.name} of the configuration"
        yield warning(template.field("tolerations"), None, f"{message}; {hint}", rule="roles/tolerations")


def _too_large(template: Template, role: Role, wanted: int, largest: int, owned: int) -> Finding:
    """Only warn: an autoscaler may add a larger node."""
    asked, room = f"{wanted / _GIB:.4g}Gi", f"{largest / _GIB:.4g}Gi"
    message = (  # kubectl truncates warnings, so the main point comes first
        f"none of the {owned} nodes of role {role.name} has more than {room} for a whole pod; "
        "ask for less, or add a larger node"
    )
    main = template.main
    inside = main[0][len(template.pod_path) :] if main else ()
    field = template.field(*inside, "resources", "requests", "memory")
    return warning(field, asked, message, rule="roles/memory")


def _stays(taint: Taint) -> bool:
    """Whether a taint was set on purpose and is not a passing state of the node."""
    return not taint.key.startswith(_TRANSIENT)


def _contradictions(template: Template, role: Role) -> Iterator[Finding]:
    """Yield the parts of a replicated job's placement that the role's nodes cannot satisfy."""
    yield from _by_selector(template, role)
    yield from _by_terms(template, role)
    yield from _by_company(template, role)
    yield from _by_tolerations(template, role)


def _by_selector(template: Template, role: Role) -> Iterator[Finding]:
    selector = template.pod.node_selector
    for key, values in role.node_labels.items():
        if key in selector and selector[key] not in values:
            message = (
                f"no node of role {role.name} has this label, because the role runs on {role.nodes}; remove it or "
                "change the role"
            )
            yield error(template.field("nodeSelector", key), selector[key], message, rule="roles/node-affinity")


def _by_terms(template: Template, role: Role) -> Iterator[Finding]:
    terms = template.pod.affinity.node_affinity.required.node_selector_terms
    if terms and role.node_labels and not any(_can_match(term, role) for term in terms):
        message = (
            f"no node of role {role.name} can match any of these terms, because the role runs on {role.nodes}; "
            "change the terms or the role"
        )
        place = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
        quoted = paths.lookup(template.raw_spec, place)
        yield error(template.field(*place), quoted, message, rule="roles/node-affinity")


def _can_match(term: NodeTerm, role: Role) -> bool:
    """Whether a term allows a value of each label that the role's nodes have."""
    return not is_empty(term) and all(
        any(all(lets(each, value) for each in term.match_expressions if each.key == key) for value in values)
        for key, values in role.node_labels.items()
    )


def _by_company(template: Template, role: Role) -> Iterator[Finding]:
    path = ("affinity", "podAffinity", REQUIRED)
    for index, term in enumerate(template.pod.affinity.pod_affinity.required if role.apart else ()):
        if term.topology_key == names.HOSTNAME_LABEL and _only(term.label_selector, role.others):
            message = f"role {role.name} does not share a host with {' or '.join(role.others)} pods; remove this term"
            quoted = paths.lookup(template.raw_spec, (*path, index))
            yield error(template.field(*path, index), quoted, message, rule="roles/anti-affinity")


def _only(selector: Selector | None, words: Sequence[str]) -> bool:
    """Whether a label selector selects only pods of these roles."""
    if selector is None:
        return False
    if selector.match_labels.get(names.ROLE_LABEL) in words:
        return True
    about = (each for each in selector.match_expressions if each.key == names.ROLE_LABEL)
    return any(each.operator == "In" and set(each.values) <= set(words) for each in about)


def _by_tolerations(template: Template, role: Role) -> Iterator[Finding]:
    """Only warn: an extra toleration does no harm, because the affinity decides where the pods run."""
    taints = [each for each in role.tolerations if each.get("operator") != "Exists"]
    for index, found in enumerate(template.pod.tolerations):
        values = [each.get("value") for each in taints if each.get("key") == found.key]
        if found.operator != "Exists" and values and found.value not in (*values, ""):
            message = (
                f"does not tolerate the taint of the nodes of role {role.name}, whose value is "
                f"{' or '.join(map(repr, values))}; the role's toleration is added, and the pods run only on its nodes"
            )
            yield warning(template.field("tolerations", index), found.value, message, rule="roles/tolerations")


Fault = tuple[Path, Any, str, str, Severity]
"""Place inside the pod spec, value, message, rule and severity."""
_RULE = "core/no-node"

_MOST = 16  # GPUs of one host: 16 V100 in a DGX-2, 16 A100 in an a2-megagpu-16g
_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_COUNT = "nvidia.com/gpu.count"
_LABELLED = {"nvidia.com/gpu.": "nvidia.com/gpu", "amd.com/gpu.": "amd.com/gpu", "beta.amd.com/gpu.": "amd.com/gpu"}
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_JOBSET_NAME, _JOB_NAME = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
_TERMS: Path = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
_WAITS = "so some of them wait for ever"
_NAMED = 5


def faults(job: Job, template: Template) -> Iterator[Fault]:
    """Yield what keeps the pods of one replicated job from the hosts that they ask for."""
    selector, terms = template.pod.node_selector, template.pod.affinity.node_affinity.required.node_selector_terms
    if selector or terms:
        asked = _asked(template.pod)
        yield from _by_count(selector, terms, asked.get("nvidia.com/gpu", 0))
        yield from _by_maker(selector, asked)
        if asked and selector:
            yield from _without(selector, asked)
        if selector and terms:
            yield from _nowhere(selector, terms)
    meta = job.runtime.value.metadata if job.kind == "TrainJob" and job.runtime is not None else job.metadata
    pods = template.job.template.spec.template
    labels = {_JOBSET_NAME: meta.name, _JOB_NAME: template.job.name, **pods.metadata.labels}
    annotations = (meta.annotations, pods.metadata.annotations, template.job.template.metadata.annotations)
    exclusive = any(each.get(_EXCLUSIVE) == names.HOSTNAME_LABEL for each in annotations)
    host = _host(template.pod, labels, exclusive=exclusive)
    if host is not None:
        yield from _on_one_host(template, labels, *host)


def _asked(pod: PodSpec) -> dict[str, int]:
    """Return the GPUs of a pod by their resource."""
    found: dict[str, int] = {}
    for container in pod.containers:
        for name in _GPUS:
            if name in container.resources.limits:
                found[name] = found.get(name, 0) + quantities.count(container.resources.limits[name])
    return found


def _by_count(selector: Mapping[str, str], terms: Sequence[NodeTerm], asked: int) -> Iterator[Fault]:
    """Compare the number of GPUs that a label of the nodes has to be with the number that a pod asks for."""
    message = f"such a node has fewer than the {asked} GPUs that a pod asks for, so the pods wait for ever; correct one"
    given = selector.get(_COUNT, "")
    if given.isascii() and given.isdecimal() and len(given) < 4 and int(given) < asked:
        yield ("nodeSelector", _COUNT), given, message, _RULE, Severity.WARNING
    few = [_is_below(term, asked) for term in terms] if 0 < asked <= _MOST else []
    if few and all(few):
        yield _TERMS, None, message, _RULE, Severity.WARNING


def _is_below(term: NodeTerm, asked: int) -> bool:
    """Whether a term allows no node of as many GPUs as are asked for."""
    about = [each for each in term.match_expressions if each.key == _COUNT]
    return bool(about) and not any(
        all(lets(each, str(count)) for each in about) for count in range(asked, 2 * _MOST + 1)
    )


def _by_maker(selector: Mapping[str, str], asked: Mapping[str, int]) -> Iterator[Fault]:
    """Compare the maker of the GPUs of the nodes with that of the GPUs that a pod asks for."""
    for key in selector if asked else ():
        held = next((name for start, name in _LABELLED.items() if key.startswith(start)), None)
        if held is not None and held not in asked and selector[key] != "false":
            message = f"a node of this label has {held}, and the pods ask for {' and '.join(asked)}; correct one"
            yield ("nodeSelector", key), selector[key], message, _RULE, Severity.WARNING
            return


def _without(selector: Mapping[str, str], asked: Mapping[str, int]) -> Iterator[Fault]:
    """Report nodes that say that they have no GPU, and nodes of Windows, for which there is no plugin of devices."""
    for key, value, what in _LACKING:
        if selector.get(key) == value:
            message = f"such a node has no {' and no '.join(asked)}, so the pods wait for ever; correct it"
            yield ("nodeSelector", key), value, f"{what}: {message}", _RULE, Severity.WARNING
    for key in sorted(_TPUS & selector.keys()):
        message = f"such a node has TPUs and no {' and no '.join(asked)}, so the pods wait for ever; correct one"
        yield ("nodeSelector", key), selector[key], message, _RULE, Severity.WARNING
    yield from _by_machine(selector, sum(asked.values()))


def _by_machine(selector: Mapping[str, str], asked: int) -> Iterator[Fault]:
    """Compare the GPUs that a pod asks for with those of the type of machine that it asks for."""
    for key in machines.TYPES:
        value = selector.get(key, "")
        held = machines.gpus(value)
        if held is not None and held < asked:
            has = "no GPU" if not held else f"{held} GPU{'s' if held != 1 else ''}"
            message = f"such a machine has {has}, and a pod asks for {asked}, so the pods wait for ever; correct one"
            yield ("nodeSelector", key), value, message, _RULE, Severity.WARNING


_TPUS = frozenset({"cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"})
_LACKING = (
    ("nvidia.com/gpu.present", "false", "a node without GPUs"),
    ("kubernetes.io/os", "windows", "a node of Windows"),
    ("beta.kubernetes.io/os", "windows", "a node of Windows"),
)


def _host(pod: PodSpec, labels: Mapping[str, str], *, exclusive: bool) -> tuple[Path, str, bool] | None:
    """Return where it is written that all pods of a Job share one host, its name, and whether a scheduler decides."""
    wanted = pod.node_selector.get(names.HOSTNAME_LABEL)
    if pod.node_name:
        return ("nodeName",), pod.node_name, False
    if wanted:
        return ("nodeSelector", names.HOSTNAME_LABEL), wanted, True
    if exclusive:
        return (), _EXCLUSIVE, True
    if _is_about(pod.affinity.pod_affinity, labels):
        return ("affinity", "podAffinity"), "podAffinity", True
    return None


def _on_one_host(
    template: Template, labels: Mapping[str, str], place: Path, host: str, scheduled: bool
) -> Iterator[Fault]:
    """Judge pods that have to share one host."""
    count = template.job.at_once * (1 if host == _EXCLUSIVE else template.job.jobs)
    if count < 2:
        return
    port = _port(template.pod)
    if port is not None:
        message = f"{count} pods with the host's port {port} cannot be on one host, {_WAITS}; remove one of the two"
        yield place, host, message, _RULE, Severity.ERROR
    elif scheduled and _is_about(template.pod.affinity.pod_anti_affinity, labels):
        message = f"{count} pods that keep each other from a host cannot be on one, {_WAITS}; remove one of the two"
        yield place, host, message, _RULE, Severity.ERROR
    else:
        devices = sum(_asked(template.pod).values()) * count
        if devices > _MOST:
            message = f"the {count} pods ask for {devices} GPUs of one host, {_WAITS}; let them be on several"
            yield place, host, message, _RULE, Severity.WARNING


def _port(pod: PodSpec) -> int | None:
    """Return a port of the host that each pod takes."""
    every = (port for container in pod.containers for port in container.ports)
    taken = (port.container_port if pod.host_network else port.host_port for port in every)
    return next(filter(None, taken), None)


def _is_about(affinity: PodAffinity, labels: Mapping[str, str]) -> bool:
    """Whether a required affinity or anti-affinity of pods about hosts selects pods of these labels."""
    return any(
        term.topology_key == names.HOSTNAME_LABEL and _selects(term.label_selector, labels)
        for term in affinity.required
    )


def _selects(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector certainly selects pods of these labels."""
    return (
        selector is not None
        and selector != Selector()
        and selector.match_labels.items() <= labels.items()
        and all(each.key in labels and lets(each, labels[each.key]) for each in selector.match_expressions)
    )


def _nowhere(selector: Mapping[str, str], terms: Sequence[NodeTerm]) -> Iterator[Fault]:
    """Report terms of which none allows what the pod's own selector asks for."""
    if all(_against(selector, term) for term in terms):
        about = {each.key for term in terms for each in term.match_expressions}
        both = itertools.islice((key for key in selector if key in about), _NAMED)
        asked = ", ".join(f"{key}={selector[key]}" for key in both)
        message = (
            f"no node can match any of these terms and the pod's nodeSelector, which asks for {asked}, so the pod "
            "waits for ever; change one of the two"
        )
        yield _TERMS, None, message, _RULE, Severity.ERROR


def _against(selector: Mapping[str, str], term: NodeTerm) -> bool:
    """Whether an expression of a term does not allow the value of a label that the selector asks for."""
    return any(each.key in selector and not lets(each, selector[each.key]) for each in term.match_expressions)


def lets(expression: Expression, value: str) -> bool:
    """Whether an expression about a label (`matchExpressions`) allows this value; an unknown operator does."""
    judge = _OPERATORS.get(expression.operator)
    return judge is None or judge(value, expression.values)


def _is_beyond(value: str, bounds: Sequence[str], sign: int) -> bool:
    try:
        return bool(bounds) and sign * int(value) > sign * int(bounds[0])
    except ValueError:
        return False


_OPERATORS: Mapping[str, Callable[[str, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda _value, _values: True,
    "DoesNotExist": lambda _value, _values: False,
    "Gt": lambda value, values: _is_beyond(value, values, 1),
    "Lt": lambda value, values: _is_beyond(value, values, -1),
}
