"""Jobs of the old operators, as small as they can be."""

from __future__ import annotations

import copy
from typing import Any

Document = dict[str, Any]


def template(container: str, **members: Any) -> Document:
    return {"spec": {"containers": [{"name": container, "image": "registry.example/train:1", **members}]}}


def replica(count: int, container: str, restart: str | None = None, **members: Any) -> Document:
    made = {"replicas": count, "template": template(container, **members)}
    return {**made, "restartPolicy": restart} if restart else made


def job(kind: str, spec: Document, version: str = "v1", **metadata: Any) -> Document:
    about = {"name": "old", **metadata}
    return copy.deepcopy({"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": about, "spec": spec})


def pytorch(
    workers: int = 1,
    spec: Document | None = None,
    master: Document | None = None,
    worker: Document | None = None,
    command: tuple[str, ...] = ("torchrun", "train.py"),
    **metadata: Any,
) -> Document:
    """A PyTorchJob of a Master and Workers; `master` and `worker` have further members of their containers."""
    replicas = {"Master": replica(1, "pytorch", command=list(command), **(master or {}))}
    if workers:
        replicas["Worker"] = replica(workers, "pytorch", command=list(command), **(worker or {}))
    return job("PyTorchJob", {"pytorchReplicaSpecs": replicas, **(spec or {})}, **metadata)


def elastic(policy: Document, **members: Any) -> Document:
    replicas = {"Worker": replica(2, "pytorch", command=["torchrun", "train.py"], **members)}
    return job("PyTorchJob", {"elasticPolicy": policy, "pytorchReplicaSpecs": replicas})


def mpi(spec: Document | None = None, version: str = "v2beta1", user: int | None = 1000, **launcher: Any) -> Document:
    own = {} if user is None else {"securityContext": {"runAsUser": user}}
    command = {"command": ["mpirun"], "args": ["-n", "2", "/train"]}
    replicas = {
        "Launcher": replica(1, "launch", **own, **{**command, **launcher}),
        "Worker": replica(2, "work", **own),
    }
    return job("MPIJob", {"mpiReplicaSpecs": replicas, **(spec or {})}, version)


def single(kind: str, roles: dict[str, int], restart: str | None = None, **members: Any) -> Document:
    """A TFJob, XGBoostJob or JAXJob with these roles."""
    member, container = {
        "TFJob": ("tfReplicaSpecs", "tensorflow"),
        "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
        "JAXJob": ("jaxReplicaSpecs", "jax"),
    }[kind]
    made = {role: replica(count, container, restart, **members) for role, count in roles.items()}
    return job(kind, {member: made})


def trainjob(spec: Document, name: str = "old") -> Document:
    about = {"name": name}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": about, "spec": spec}


def runtime(torch: Document, name: str = "ours") -> Document:
    pod = {"spec": {"containers": [{"name": "node", "image": "registry.example/train:1"}]}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    replicated = {"name": "node", "template": {"metadata": {"labels": labels}, "spec": {"template": pod}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"torch": torch}, "template": {"spec": {"replicatedJobs": [replicated]}}},
    }
