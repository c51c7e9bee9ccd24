"""Networks: NetworkPolicies of the input by which the pods of a job cannot reach each other.

Where policies select a pod, only what one of them allows reaches it, or is reached by it (Kubernetes documentation,
Network Policies). What Muster cannot read of a rule is taken as allowing. The network has to enforce policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, warning
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import topologies
from muster.webhook.cli.related.related_documents import Inputs, items, member, name_of

__all__ = ["check"]

_RULE = "core/network-policy"
_SIDES = {"Ingress": ("ingress", "from", "be reached by"), "Egress": ("egress", "to", "reach")}
_SET = "jobset.sigs.k8s.io/"
_MEETING = 29_500


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report policies by which the nodes of a training never meet."""
    place = job.container
    if place is None or topologies.pods_of(job) <= 1:
        return
    template = templates.find_template(job, place.job_path)
    own = next(template.metadata("labels"))[0] if template is not None else {}
    labels = {**own, f"{_SET}jobset-name": job.name, f"{_SET}replicatedjob-name": place.raw_job.get("name")}
    policies = [each.document for each in inputs.of_kind("NetworkPolicy", job.namespace)]
    for side, (rules, peers, verb) in _SIDES.items():
        mine = [
            each
            for each in policies
            if _selects(member(each, "spec"), labels) and _is_about(member(each, "spec"), side)
        ]
        if mine and not any(
            _allows(rule, peers, labels) for each in mine for rule in items(member(each, "spec"), rules)
        ):
            message = (
                f"the NetworkPolicy {name_of(mine[0])} of the input does not let the pods {verb} each other, so the "
                f"nodes never meet; add a rule of {rules} with the label {_SET}jobset-name of the pods"
            )
            field, value = (
                ("spec.trainer.numNodes", job.raw_trainer.get("numNodes")) if job.kind == "TrainJob" else ("spec", None)
            )
            yield warning(field, value, message, rule=_RULE)


def _is_about(spec: Mapping[str, Any], side: str) -> bool:
    named = spec.get("policyTypes")
    if isinstance(named, list) and named:
        return side in named
    return side == "Ingress" or "egress" in spec


def _selects(spec: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    return _matches(member(spec, "podSelector"), labels) is True


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
