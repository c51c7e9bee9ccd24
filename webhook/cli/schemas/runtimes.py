"""Runtimes: what the API server and Trainer's webhook refuse of a runtime, beside the types of its members.

Source: trainer `pkg/apis/trainer/v1alpha1/trainingruntime_types.go` (rules in CEL over several members),
`pkg/webhooks/trainingruntime_webhook.go` validateReplicatedJobs; its webhook does not see a runtime with the label
`trainer.kubeflow.org/webhook-validation: disabled`, as those that come with Trainer have it, nor what an update makes
of a TrainingRuntime; so one that comes from a cluster is not judged by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents import loose, names, paths
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.paths import Path

__all__ = ["check"]

_POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")
_UNSEEN = ("trainer.kubeflow.org/webhook-validation", "disabled")
_REQUIRED = {
    names.ANCESTOR_TRAINER: names.CONTAINER_NODE,
    **{name: name for name in ("dataset-initializer", "model-initializer")},
}
"""The container that a replicated job of each ancestor has to have."""
_JOBS: Path = ("spec", "template", "spec", "replicatedJobs")
_CRD, _WEBHOOK = "so the API server refuses the runtime", "so Trainer refuses the runtime"


def check(document: Mapping[str, Any]) -> list[Finding]:
    """Return an error for each rule that a ClusterTrainingRuntime or a TrainingRuntime breaks.

    Args:
        document: a runtime, of any shape.
    """
    found = [*_policies(document), *_targets(document)]
    metadata = loose.mapping(document.get("metadata"))
    if metadata.get("uid") is None and loose.mapping(metadata.get("labels")).get(_UNSEEN[0]) != _UNSEEN[1]:
        found += _jobs(document)
    return [error(paths.field(document, path), value, text, rule="core/runtime-rule") for path, value, text in found]


_Fault = tuple[Path, Any, str]


def _policies(document: Mapping[str, Any]) -> Iterator[_Fault]:
    policy = loose.member(document.get("spec"), "mlPolicy")
    named = [each for each in _POLICIES if policy.get(each) is not None]
    if len(named) > 1:
        message = f"{' and '.join(named)} are policies of which a runtime has one, {_CRD}; remove the others"
        yield ("spec", "mlPolicy"), None, message
    processes = loose.mapping(policy.get("flux")).get("numProcPerNode")
    if type(processes) is int and processes < 1:
        yield ("spec", "mlPolicy", "flux", "numProcPerNode"), processes, f"must be at least 1, {_CRD}; raise it"


def _targets(document: Mapping[str, Any]) -> Iterator[_Fault]:
    torch = loose.member(document.get("spec"), "mlPolicy", "torch")
    targets = loose.mapping(torch.get("envInjection")).get("targets")
    for index, target in enumerate(loose.sequence(targets)):
        containers = loose.mapping(target).get("containerNames")
        if isinstance(containers, list) and names.CONTAINER_NODE in containers:
            place = ("spec", "mlPolicy", "torch", "envInjection", "targets", index, "containerNames")
            yield place, names.CONTAINER_NODE, f"is the container that always gets PET_*, {_CRD}; remove it"


def _jobs(document: Mapping[str, Any]) -> Iterator[_Fault]:
    for index, job in enumerate(loose.sequence(paths.lookup(document, _JOBS))):
        template = loose.member(job, "template")
        step = loose.member(template.get("metadata"), "labels").get(names.ANCESTOR_LABEL)
        if not isinstance(step, str) or step not in _REQUIRED:
            continue
        replicas = loose.mapping(job).get("replicas")
        if type(replicas) is int and replicas != 1:
            message = f"a replicated job with the label {names.ANCESTOR_LABEL} has one replica, {_WEBHOOK}; write 1"
            yield (*_JOBS, index, "replicas"), replicas, message
        pod = loose.member(template.get("spec"), "template", "spec")
        containers = pod.get("containers")
        held = [loose.mapping(each).get("name") for each in containers] if isinstance(containers, list) else []
        if _REQUIRED[step] not in held:
            message = f"a replicated job of the step {step} has a container {_REQUIRED[step]}, {_WEBHOOK}; rename one"
            place = (*_JOBS, index, "template", "spec", "template", "spec", "containers")
            yield place, ", ".join(map(str, held[:5])) or None, message
