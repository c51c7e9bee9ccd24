"""The two reviews that all measurements use: a TrainJob of about 6 kB and a JobSet of about 12 kB.

The TrainJob is what `kubectl apply` sends for a two-node TRL job; the JobSet is what Trainer makes from it, with two
initializers. As on a cluster, a good part of each is managed fields.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import yaml

from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader

__all__ = ["RUNTIMES", "as_mutated", "cluster_yaml", "jobset_review", "reader", "trainjob_review"]

RUNTIMES = Path(__file__).parents[1] / "manifests" / "runtimes"
_TRAINJOB_BYTES, _JOBSET_BYTES = 6_000, 12_000
_PET = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "4",
    "PET_MASTER_ADDR": "llama-node-0-0.llama",
    "PET_MASTER_PORT": "29500",
}


def reader() -> InMemoryReader:
    """Return a reader of the shipped runtimes, with the TrainJob that owns the JobSet."""
    files = sorted(path for path in RUNTIMES.glob("*.yaml") if path.name != "kustomization.yaml")
    runtimes = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    return InMemoryReader(
        [*runtimes, _trainjob([]), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}]
    )


def cluster_yaml() -> str:
    """Return the TrainJob and its namespace, for a server that reads files."""
    return yaml.safe_dump_all([_trainjob([]), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}])


def trainjob_review() -> bytes:
    """Return the review of the TrainJob."""
    return _padded(_trainjob(_env(24)), _TRAINJOB_BYTES)


def jobset_review() -> bytes:
    """Return the review of the JobSet."""
    return _padded(_jobset(_env(24)), _JOBSET_BYTES)


def as_mutated(body: bytes) -> bytes:
    """Return the review that the validating phase gets after this one: of the object as Muster's mutation leaves it."""
    decision = decisions.evaluate(reviews.parse(body, "mutate"), reader(), Policy())
    review = orjson.loads(body)
    review["request"]["object"] = decision.document
    return orjson.dumps(review)


def _env(count: int) -> list[dict[str, str]]:
    return [{"name": f"SETTING_{index:02}", "value": "x" * 60} for index in range(count)]


def _padded(document: dict[str, Any], size: int) -> bytes:
    managed: list[dict[str, Any]] = []
    document["metadata"]["managedFields"] = managed
    while True:
        body = orjson.dumps(_review(document))
        if len(body) >= size:
            return body
        fields: dict[str, Any] = {
            f'k:{{"name":"SETTING_{index:02}"}}': {".": {}, "f:name": {}, "f:value": {}} for index in range(8)
        }
        managed.append({"manager": f"trainer-{len(managed)}", "operation": "Apply", "fieldsV1": {"f:env": fields}})


def _review(document: dict[str, Any]) -> dict[str, Any]:
    group, _, version = document["apiVersion"].partition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    request = {"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "operation": "CREATE", "namespace": "ml"}
    request |= {
        "name": "llama",
        "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
        "object": document,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | {"dryRun": False}}


def _metadata(**more: Any) -> dict[str, Any]:
    return {"name": "llama", "namespace": "ml", **more}


def _trainjob(env: list[dict[str, str]]) -> dict[str, Any]:
    args = ["--model_name_or_path=Qwen/Qwen2.5-7B", "--dataset_name=trl-lib/Capybara", "--output_dir=/out"]
    trainer = {"numNodes": 2, "command": ["trl", "sft"], "args": args, "env": env}
    trainer["resourcesPerNode"] = {"limits": {"nvidia.com/gpu": 4, "cpu": "16", "memory": "64Gi"}}
    spec = {"runtimeRef": {"name": "trl-distributed"}, "trainer": trainer}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": _metadata(uid="t1"),
        "spec": spec,
    }


def _initializer(step: str) -> dict[str, Any]:
    container = {"name": step, "image": f"ghcr.io/kubeflow/trainer/{step}", "env": _env(4)}
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "OnFailure"}}
    labels = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}}
    return {
        "name": step,
        "replicas": 1,
        "template": {"metadata": labels, "spec": {"parallelism": 1, "template": template}},
    }


def _jobset(env: list[dict[str, str]]) -> dict[str, Any]:
    container = {
        "name": "node",
        "image": "ghcr.io/muster-dev/trl:0.1.0",
        "command": ["torchrun", "-m", "trl.scripts.sft"],
        "args": ["--model_name_or_path=Qwen/Qwen2.5-7B", "--dataset_name=trl-lib/Capybara"],
        "env": [*env, *({"name": name, "value": value} for name, value in _PET.items())],
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    }
    pod = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "OnFailure"}}
    template = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pod},
    }
    owner = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "llama",
        "uid": "t1",
        "controller": True,
    }
    initializers = [_initializer(step) for step in ("dataset-initializer", "model-initializer")]
    network = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    spec = {
        "network": network,
        "replicatedJobs": [*initializers, {"name": "node", "replicas": 1, "template": template}],
    }
    metadata = _metadata(ownerReferences=[owner])
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}
