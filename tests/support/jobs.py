"""Builders of TrainJobs, runtimes and JobSets: each returns a small, complete document that a test then changes."""

from __future__ import annotations

import copy
import functools
from pathlib import Path

import yaml

FRAMEWORK = "trainer.kubeflow.org/framework"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
NAMESPACE = "team-a"
UID = "11111111-2222-3333-4444-555555555555"

_RUNTIMES = Path(__file__).parents[2] / "manifests" / "runtimes"


@functools.cache
def _shipped():
    every = (document for file in sorted(_RUNTIMES.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text()))
    return {document["metadata"]["name"]: document for document in every if "Runtime" in document.get("kind", "")}


def shipped_runtimes():
    """The runtimes of `manifests/runtimes`, by name."""
    return copy.deepcopy(_shipped())


def make_runtime(
    name="trl-distributed", *, framework="trl", container=None, pod=None, nodes=1, network=None, annotations=None
):
    """A ClusterTrainingRuntime with one replicated job, `node`."""
    node = {"name": "node", "image": "example.org/image:1", **(container or {})}
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {ANCESTOR: "trainer"}},
            "spec": {"template": {"spec": {"containers": [node], **(pod or {})}}},
        },
    }
    metadata = {"name": name, "labels": {FRAMEWORK: framework} if framework else {}}
    if annotations:
        metadata["annotations"] = annotations
    spec = {"replicatedJobs": [job]}
    if network:
        spec["network"] = network
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": metadata,
        "spec": {"mlPolicy": {"numNodes": nodes, "torch": {}}, "template": {"spec": spec}},
    }


def make_trainjob(name="llama", *, runtime="trl-distributed", metadata=None, spec=None, **trainer):
    """A TrainJob; further keywords are members of `spec.trainer`, which is missing when there are none."""
    body = {"runtimeRef": {"name": runtime}, **(spec or {})}
    if trainer:
        body["trainer"] = trainer
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE, **(metadata or {})},
        "spec": body,
    }


def make_jobset(name="server", *, framework="vllm", metadata=None, container=None, spec=None, nodes=1):
    """A JobSet that Trainer did not make, as complete as JobSet's defaulter would leave it."""
    own = {"name": "server", "image": "example.org/image:1", **(container or {})}
    job = {
        "name": "server",
        "groupName": "default",
        "replicas": 1,
        "template": {
            "spec": {
                "completionMode": "Indexed",
                "completions": nodes,
                "parallelism": nodes,
                "template": {"spec": {"restartPolicy": "OnFailure", "containers": [own]}},
            }
        },
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {FRAMEWORK: framework} if framework else {},
            **(metadata or {}),
        },
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "replicatedJobs": [job],
            **(spec or {}),
        },
    }


def container_of(jobset, job=0):
    """The first container of a JobSet's replicated job, to read or to write."""
    return jobset["spec"]["replicatedJobs"][job]["template"]["spec"]["template"]["spec"]["containers"][0]


def env_of(container):
    """Plain env values by name."""
    return {entry["name"]: entry.get("value") for entry in container.get("env") or ()}


def make_namespace(mode=None, name=NAMESPACE):
    """A Namespace, with a mode label or without."""
    labels = {} if mode is None else {"muster.dev/mode": mode}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
