"""Builders of TrainJobs, runtimes and JobSets: small, complete documents that a test then changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.strategies.documents import names

__all__ = ["NAMESPACE", "make_jobset", "make_runtime", "make_trainjob"]

NAMESPACE = "team-a"
"""Where the jobs of the kit are."""
_UID = "11111111-2222-3333-4444-555555555555"


def make_trainjob(
    name: str = "example", *, runtime: str = "example", metadata: Mapping[str, Any] | None = None, **trainer: Any
) -> dict[str, Any]:
    """Return a TrainJob.

    Args:
        name: its name.
        runtime: name of its ClusterTrainingRuntime.
        metadata: further members of its metadata.
        trainer: members of `spec.trainer`, such as `numNodes=2`; without any, the job has no `spec.trainer`.
    """
    spec: dict[str, Any] = {"runtimeRef": {"name": runtime}}
    if trainer:
        spec["trainer"] = trainer
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": _UID, **(metadata or {})},
        "spec": spec,
    }


def make_runtime(
    framework: str,
    *,
    name: str = "example",
    command: Sequence[str] | None = None,
    policy: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a ClusterTrainingRuntime with one replicated job, `node`.

    Args:
        framework: value of its label `trainer.kubeflow.org/framework`.
        name: its name.
        command: command of its training container.
        policy: its `mlPolicy`; that of torch by default, with which Trainer injects `PET_*`.
        container: further members of the training container.
    """
    node: dict[str, Any] = {"name": "node", "image": "example.org/image:1", **(container or {})}
    if command is not None:
        node["command"] = list(command)
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {names.ANCESTOR_LABEL: names.ANCESTOR_TRAINER}},
            "spec": {"template": {"spec": {"containers": [node]}}},
        },
    }
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {names.FRAMEWORK_LABEL: framework}},
        "spec": {
            "mlPolicy": {"torch": {}} if policy is None else dict(policy),
            "template": {"spec": {"replicatedJobs": [job]}},
        },
    }


def make_jobset(
    framework: str,
    *,
    name: str = "example",
    roles: Mapping[str, int] | None = None,
    container: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a JobSet that Trainer did not make, as complete as JobSet's own webhook leaves it.

    Args:
        framework: value of its label `trainer.kubeflow.org/framework`.
        name: its name.
        roles: pods of each replicated job by its name; `{"node": 1}` by default.
        container: further members of each container.
        metadata: further members of its metadata.
    """
    own = {"labels": {names.FRAMEWORK_LABEL: framework}, **(metadata or {})}
    return {
        "apiVersion": names.JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": _UID, **own},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "replicatedJobs": [_role(*each, container or {}) for each in (roles or {"node": 1}).items()],
        },
    }


def _role(name: str, pods: int, container: Mapping[str, Any]) -> dict[str, Any]:
    containers = [{"name": name, "image": "example.org/image:1", **container}]
    pod = {"spec": {"restartPolicy": "OnFailure", "containers": containers}}
    job = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": pod}
    return {"name": name, "groupName": "default", "replicas": 1, "template": {"spec": job}}
