"""Documents for the tests: small, valid, and changed by keyword."""

from __future__ import annotations

from pathlib import Path

from muster.webhook import kubeyaml

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
FRAMEWORK = "trainer.kubeflow.org/framework"


def trainjob(name="sft", runtime="trl-distributed", metadata=None, **trainer):
    """A TrainJob; keyword arguments are members of `spec.trainer`."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"runtimeRef": {"name": runtime}, **({"trainer": trainer} if trainer else {})},
    }


def two_nodes(name="sft", **more):
    """The job of example 01: `trl sft` on two nodes."""
    args = ["--model_name_or_path=m", "--dataset_name=d", "--output_dir=o"]
    limits = {"limits": {"nvidia.com/gpu": 1}}
    return trainjob(name, command=["trl", "sft"], args=args, numNodes=2, resourcesPerNode=limits, **more)


def container(**members):
    """A container `node`."""
    return {"name": "node", "image": "example.org/node:1", **members}


def jobset(name="set", *containers, **metadata):
    """A JobSet with one replicated job `node`."""
    pod = {"containers": list(containers) or [container()]}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, **metadata},
        "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]},
    }


def runtime(name="own", framework="torch", kind="ClusterTrainingRuntime", policy=None, template=None, **members):
    """A runtime with one container `node`; keyword arguments are members of the container."""
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [container(**members)]}}},
        },
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": {FRAMEWORK: framework} if framework else {}},
        "spec": {
            "mlPolicy": {"torch": {}} if policy is None else policy,
            "template": {"spec": {"replicatedJobs": [job]}, **(template or {})},
        },
    }


def namespace(name, mode):
    """A Namespace with our mode label."""
    metadata = {"name": name, "labels": {"muster.dev/mode": mode}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def configmap(name="settings", **data):
    """A document that is none of our business."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def stream(*documents):
    """Documents as one YAML stream."""
    return f"---\n{kubeyaml.dump_all(documents)}" if documents else ""


def env(document):
    """The env of container `node`, by name, of a JobSet."""
    spec = document["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in spec["containers"][0].get("env", [])}
