"""Checks for every framework: what the API server accepts and Trainer then fails on.

Each was seen on a real API server with Trainer: `numNodes: 0` is accepted; an env variable that only Trainer
may write is refused only in some places.

Updates: changes of a job that the API server takes, and from which the job does not recover.

What the API server, JobSet, Trainer or Kueue refuse of an update, they say themselves. Sources: trainer
`pkg/apis/trainer/v1alpha1/trainjob_types.go`: `self == oldSelf` is asked only where both exist; jobset
`pkg/webhooks/jobset_webhook.go` ValidateUpdate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.checks import claim_checks, patch_checks, plugin_checks, volume_checks
from muster.strategies.checks.pod_checks import check_pods
from muster.strategies.documents import names, trainjobs
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import coordinators, slots, topologies, written
from muster.strategies.trainer import ml_policies

__all__ = ["check_job", "check_update"]


_KINDS = ("static", "c10d")
_KUEUE, _QUEUE = "kueue.x-k8s.io/", "kueue.x-k8s.io/queue-name"
_MOST = 2**31 - 1  # both are int32 in Trainer


def check_job(subject: Job) -> Iterator[Finding]:
    """Check one TrainJob or JobSet as it will be stored."""
    yield from _rendezvous_annotation(subject)
    yield from _misplaced(subject)
    if subject.kind == "TrainJob":
        yield from _numbers(subject)
        yield from _reserved_env(subject)
        yield from _runtime(subject)
        yield from patch_checks.check(subject)
        if subject.runtime is not None and not subject.runtime.is_torch:
            yield from slots.check(subject)
        yield from plugin_checks.check(subject)
    yield from written.check(subject)
    yield from claim_checks.check_claims(subject)
    yield from check_pods(subject)
    yield from volume_checks.check_outputs(subject)
    if subject.container is not None and subject.owner is None:
        nodes = max(topologies.read_topology(subject).nodes, 1)
        yield from coordinators.validate(subject, nodes)


def _rendezvous_annotation(subject: Job) -> Iterator[Finding]:
    found = subject.annotation(names.RENDEZVOUS_ANNOTATION)
    if found is not None and found[0] not in _KINDS:
        field = f"metadata.annotations[{names.RENDEZVOUS_ANNOTATION}]"
        yield error(
            field, found[0], f"is not a kind of rendezvous ({found[1]}); use static or c10d", rule="core/rendezvous"
        )


def _misplaced(subject: Job) -> Iterator[Finding]:
    """Report what a job says to Kueue where nothing reads it; what Kueue's webhooks refuse, they say themselves.

    Kueue of 2026-08-22 reads a queue from a label, and other annotations from the pod templates alone
    (`pkg/controller/jobs/{jobset,trainjob}`, validateTopologyRequest).
    """
    metadata = subject.metadata
    for key, value in metadata.annotations.items():
        message = ""
        if key.startswith(f"{_KUEUE}podset-"):
            message = "Kueue reads it from the pod templates alone, so nothing keeps to it; write it there"
        elif key == _QUEUE and _QUEUE not in metadata.labels:
            message = "Kueue reads the queue from a label, so this job is in no queue; write it into metadata.labels"
        if message:
            yield warning(f"metadata.annotations[{key}]", value, message, rule="core/kueue")


def _numbers(subject: Job) -> Iterator[Finding]:
    trainer = subject.trainer
    for member, value in (("numNodes", trainer.num_nodes), ("numProcPerNode", trainer.num_proc_per_node)):
        if isinstance(value, int) and value < 1:
            yield error(f"spec.trainer.{member}", value, "must be at least 1", rule="core/numbers")
        elif isinstance(value, int) and value > _MOST:
            yield error(f"spec.trainer.{member}", value, f"must be at most {_MOST}", rule="core/numbers")
    if trainer.resources_per_node and trainer.resources_per_node.claims:
        written = subject.raw_trainer["resourcesPerNode"]["claims"]
        message = "Trainer accepts and ignores it; put claims in the runtime's template"
        yield warning("spec.trainer.resourcesPerNode.claims", written, message, rule="core/claims-ignored")


def _reserved_env(subject: Job) -> Iterator[Finding]:
    for plugin in subject.runtime.policy.sources if subject.runtime is not None else ():
        reserved, cure = _RESERVED.get(plugin, (_NOTHING, ""))
        for entry in subject.trainer.env:
            if entry.name in reserved:
                message, value = f"only Trainer sets it; {cure}", None if entry.value_from else entry.value
                yield error(f"spec.trainer.env[{entry.name}]", value, message, rule="core/reserved-env")


_NOTHING = frozenset[str]()
_RESERVED: Mapping[str, tuple[frozenset[str], str]] = {
    "torch": (names.RESERVED_ENV, "use numNodes and numProcPerNode, or the annotation muster.dev/rendezvous"),
    "mpi": (names.RESERVED_ENV_OF_MPI, "remove it"),
    "xgboost": (names.RESERVED_ENV_OF_XGBOOST, "use numNodes"),
}
"""What Trainer's plugins refuse (`pkg/runtime/framework/plugins`, `pkg/constants/constants.go`)."""


def _runtime(subject: Job) -> Iterator[Finding]:
    kind, name = trainjobs.runtime_ref(subject.document)
    if not name:
        yield error("spec.runtimeRef.name", None, "is required", rule="core/runtime")
    elif not trainjobs.is_supported(subject.document):
        yield _unsupported(subject.document["spec"]["runtimeRef"])
    elif subject.runtime is None and not subject.runtime_open:
        yield error(
            "spec.runtimeRef.name", name, f"no {kind} of this name exists; create it first", rule="core/runtime"
        )
    elif subject.runtime is not None:
        yield from _ignored(subject, subject.runtime, name)


def _ignored(subject: Job, runtime: Runtime, name: str) -> Iterator[Finding]:
    """Report members of `spec.trainer` that Trainer drops, because the runtime labels no training job."""
    place, dropped = runtime.trainer, ml_policies.ignored(runtime, subject.trainer)
    if not dropped:
        return
    what = f"Trainer would ignore {', '.join(dropped)} of spec.trainer"
    label = f"{names.ANCESTOR_LABEL}: {names.ANCESTOR_TRAINER}"
    if place is None:
        message = (
            f"{what}: the runtime has no replicated job labelled {label} with a container named "
            f"{names.CONTAINER_NODE}; correct the runtime"
        )
        yield error("spec.runtimeRef.name", name, message, rule="core/runtime")
        return
    message = f"{what}: the runtime's job {place.job_name} has no label {label}; label its template"
    nodes, runs = subject.trainer.num_nodes, topologies.pods_of_replicated_job(subject, place.job)
    find = error if "numNodes" in dropped and nodes != runs else warning
    yield find("spec.runtimeRef.name", name, message, rule="core/runtime")


def _unsupported(ref: Mapping[str, Any]) -> Finding:
    member, wanted = ("kind", " or ".join(trainjobs.RUNTIME_KINDS))
    if ref.get("apiGroup") not in (None, names.TRAINER_GROUP):
        member, wanted = "apiGroup", names.TRAINER_GROUP
    message = f"is not one of a runtime, so Trainer refuses the job; use {wanted}"
    return error(f"spec.runtimeRef.{member}", ref[member], message, rule="core/runtime")


_RULE = "core/immutable"


def check_update(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Finding]:
    """Report what an update of a TrainJob or JobSet takes away or adds, and may not.

    Args:
        kind: which of the two.
        old: the job as the cluster has it; its shape has been checked.
        new: the job as it would be stored.
    """
    before, after = old.get("spec") or {}, new.get("spec") or {}
    was, now = ({key for key in each if each[key] is not None} for each in (before, after))
    taken, added = was - now, now - was
    if kind == "JobSet" and "network" in taken:
        message = "the API server lets it be taken away, and the controller of JobSet then panics at this job"
        yield warning("spec.network", None, f"{message}; keep it", rule=_RULE)
    if kind == "TrainJob" and "trainer" in taken:
        message = "cannot be removed after creation: the API server allows it, but the job could never be resumed"
        yield error("spec.trainer", None, f"{message}; put it back", rule="core/trainer-immutable")
    if kind == "TrainJob" and "trainer" in added:
        message = "cannot be set after creation: the API server allows it, but the job could never be resumed"
        yield error("spec.trainer", after["trainer"], f"{message}; create a new job", rule="core/trainer-immutable")
    if kind == "TrainJob" and "initializer" in taken | added:
        message = (
            "the API server takes it in and out, and Trainer could then never apply the JobSet again, so the job could "
            "not be resumed; delete the job and create it again"
        )
        yield warning("spec.initializer", None, message, rule=_RULE)
