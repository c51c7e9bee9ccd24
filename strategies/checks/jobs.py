"""Checks for every framework: what the API server accepts and Trainer then fails on.

Each was seen on a real API server with Trainer: the CRD's `self == oldSelf` is skipped when `spec.trainer`
appears or disappears, and the job then can never be resumed; `numNodes: 0` is accepted; an env variable that only
Trainer may write is refused only in some places.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.checks import checkpoints, claims, patches, plugins
from muster.strategies.checks.pods import check_pods
from muster.strategies.documents import labels, names, quantities, trainjobs
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import coordinators, slots, topologies, untold
from muster.strategies.trainer import ml_policies

__all__ = ["check_immutable", "check_job"]

_KINDS = ("static", "c10d")
_MOST = 2**31 - 1  # both are int32 in Trainer


def check_job(subject: Job) -> Iterator[Finding]:
    """Check one TrainJob or JobSet as it will be stored."""
    yield from _rendezvous_annotation(subject)
    yield from _labels(subject)
    if subject.kind == "TrainJob":
        yield from _numbers(subject)
        yield from _reserved_env(subject)
        yield from _quantities(subject)
        yield from _runtime(subject)
        yield from patches.check(subject)
        if subject.runtime is not None and not subject.runtime.is_torch:
            yield from slots.check(subject)
        yield from plugins.check(subject)
    yield from untold.check(subject)
    yield from claims.check_claims(subject)
    yield from check_pods(subject)
    yield from checkpoints.check(subject)
    if subject.container is not None and subject.owner is None:
        nodes = max(topologies.read_topology(subject).nodes, 1)
        yield from coordinators.validate(subject, nodes)


def check_immutable(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Finding]:
    """Report a `spec.trainer` that is added to, or removed from, an existing TrainJob."""
    had, has = ((document.get("spec") or {}).get("trainer") is not None for document in (old, new))
    if had and not has:
        message = (
            "cannot be removed after creation: the API server allows it, but the job could never be resumed; put it "
            "back"
        )
        yield error("spec.trainer", None, message, rule="core/trainer-immutable")
    if has and not had:
        message = (
            "cannot be set after creation: the API server allows it, but the job could never be resumed; create a new "
            "job"
        )
        yield error("spec.trainer", (new.get("spec") or {}).get("trainer"), message, rule="core/trainer-immutable")


def _labels(subject: Job) -> Iterator[Finding]:
    """Check the labels of the job itself, as its API server does behind all webhooks."""
    for key, value in ((subject.document.get("metadata") or {}).get("labels") or {}).items():
        if isinstance(value, str) and not (labels.is_value(value) and labels.is_key(key)):
            message = "a label has up to 63 letters, digits, -, _ and . and begins and ends with one of the first two"
            message = f"{message}, so the API server refuses the job; correct it, or write an annotation"
            yield error(f"metadata.labels[{key}]", value, message, rule="core/labels")


def _rendezvous_annotation(subject: Job) -> Iterator[Finding]:
    found = subject.annotation(names.RENDEZVOUS_ANNOTATION)
    if found is not None and found[0] not in _KINDS:
        field = f"metadata.annotations[{names.RENDEZVOUS_ANNOTATION}]"
        yield error(
            field, found[0], f"is not a kind of rendezvous ({found[1]}); use static or c10d", rule="core/rendezvous"
        )


def _numbers(subject: Job) -> Iterator[Finding]:
    trainer = subject.trainer
    for member, value in (("numNodes", trainer.get("numNodes")), ("numProcPerNode", trainer.get("numProcPerNode"))):
        if value is not None and value < 1:
            yield error(f"spec.trainer.{member}", value, "must be at least 1", rule="core/numbers")
        elif value is not None and value > _MOST:
            yield error(f"spec.trainer.{member}", value, f"must be at most {_MOST}", rule="core/numbers")


def _reserved_env(subject: Job) -> Iterator[Finding]:
    entries = subject.trainer.get("env")
    policy: Mapping[str, Any] = subject.runtime.ml_policy if entries and subject.runtime is not None else {}
    for plugin in policy:
        reserved, cure = _RESERVED.get(plugin, (_NOTHING, ""))
        sets = reserved and policy[plugin] is not None and not reserved.isdisjoint(map(_name, entries or ()))
        for entry in (entries or ()) if sets else ():
            if entry.get("name") in reserved:
                message = f"only Trainer sets it; {cure}"
                yield error(f"spec.trainer.env[{entry['name']}]", entry.get("value"), message, rule="core/reserved-env")


_name = operator.methodcaller("get", "name")
_NOTHING = frozenset[str]()
_RESERVED: Mapping[str, tuple[frozenset[str], str]] = {
    "torch": (names.RESERVED_ENV, "use numNodes and numProcPerNode, or the annotation muster.dev/rendezvous"),
    "mpi": (names.RESERVED_ENV_OF_MPI, "remove it"),
    "xgboost": (names.RESERVED_ENV_OF_XGBOOST, "use numNodes"),
}
"""What Trainer's plugins refuse (`pkg/runtime/framework/plugins`, `pkg/constants/constants.go`)."""


def _quantities(subject: Job) -> Iterator[Finding]:
    resources = subject.trainer.get("resourcesPerNode") or {}
    for part in ("limits", "requests"):
        amounts: Mapping[str, Any] = resources.get(part) or {}  # type: ignore[assignment]  # a literal key per loop turn
        for name, amount in amounts.items():
            try:
                quantities.value(amount)
            except ValueError as bad:
                yield error(f"spec.trainer.resourcesPerNode.{part}[{name}]", amount, str(bad), rule="core/quantity")
    if resources.get("claims"):
        message = "Trainer accepts and ignores it; put claims in the runtime's template"
        yield warning("spec.trainer.resourcesPerNode.claims", resources["claims"], message, rule="core/claims-ignored")


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
    nodes, runs = subject.trainer.get("numNodes"), topologies.pods_of_replicated_job(subject, place.job)
    find = error if "numNodes" in dropped and nodes != runs else warning
    yield find("spec.runtimeRef.name", name, message, rule="core/runtime")


def _unsupported(ref: Mapping[str, Any]) -> Finding:
    member, wanted = ("kind", " or ".join(trainjobs.RUNTIME_KINDS))
    if ref.get("apiGroup") not in (None, names.TRAINER_GROUP):
        member, wanted = "apiGroup", names.TRAINER_GROUP
    message = f"is not one of a runtime, so Trainer refuses the job; use {wanted}"
    return error(f"spec.runtimeRef.{member}", ref[member], message, rule="core/runtime")
