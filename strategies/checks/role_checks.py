"""Checks of roles: what would keep the pods of a role from ever running, reported before they wait.

Muster only narrows placement. Of what a user wrote, only certain contradictions are reported: the job requires other
values of the very labels that the platform declares for each node of the role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from muster.strategies.checks.node_fits import lets
from muster.strategies.claims import requests
from muster.strategies.documents import decoding, names, paths
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.model import NodeTerm, Selector, Taint, Toleration
from muster.strategies.jobs import assignments
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, list_templates, placed
from muster.strategies.platform.placements import KNOWN, Node, Role
from muster.strategies.roles import role_memories
from muster.strategies.roles.affinities import REQUIRED, is_empty
from muster.strategies.roles.tolerations import tolerates

__all__ = ["Nodes", "check_roles"]

Nodes = Callable[[Role], Iterable[Node]]
"""Returns the known nodes of a role, none where the cluster cannot be asked."""

_TRANSIENT = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_GIB = 1024**3
_OF_RUNTIME = "spec.template."


def check_roles(job: Job, nodes: Nodes) -> list[Finding]:
    """Check the roles of a JobSet, or of the JobSet that a TrainJob will become; nothing where no role is configured.

    Args:
        job: the job as it will be stored.
        nodes: returns the cluster's nodes of a role.
    """
    found: list[Finding] = []
    if not job.roles:
        return found
    profiles = {each.template.path: job.supply.profiles.get(each.profile or "") for each in requests.list_requests(job)}
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
        yield error(assigned.field, assigned.word, message, rule="roles/label")
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
    yield from _on_nodes(template, role, role_memories.planned(template, memory), nodes(role))


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
