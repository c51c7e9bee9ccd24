"""The JobSet that is created, the change that every peer is to make of it, and what of that is missing in an answer.

The change is the one that Muster makes of a TRL job on two nodes: torchrun as the launcher, and the eight variables
that torchrun and the guard need. Muster's own annotation is not asked of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["COMMAND", "MOST", "NAME", "PARTS", "PROFILE", "job", "missing", "review", "variables"]

_NODES, _GPUS, _PORT = 2, 4, "29500"
_PROFILE_ANNOTATION = "muster.dev/claim-profile"

MOST = 64
"""Pods that a replicated job may have, where a peer has a rule of its own for its validation."""

NAME = "llama"
"""The name of the JobSet."""

PROFILE = "four-gpus"
"""The claim profile of the rows with claims."""

COMMAND = ["torchrun", "-m", "trl.scripts.sft"]
"""The command after the change."""

_ADDRESS = f"{NAME}-node-0-0.{NAME}"

PARTS = ("command", "variables", "names of the first pod", "claim")
"""What a change has; the claim is asked of the rows with claims alone."""

_NAMED = ("PET_MASTER_ADDR", "MASTER_ADDR")


def variables() -> list[dict[str, Any]]:
    """Return the variables that the change adds, in their order."""
    rank = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    return [
        {"name": "PET_NNODES", "value": str(_NODES)},
        {"name": "PET_NPROC_PER_NODE", "value": str(_GPUS)},
        {"name": "PET_NODE_RANK", "valueFrom": rank},
        {"name": "PET_MASTER_ADDR", "value": _ADDRESS},
        {"name": "PET_MASTER_PORT", "value": _PORT},
        {"name": "MASTER_ADDR", "value": _ADDRESS},
        {"name": "MASTER_PORT", "value": _PORT},
        {"name": "MUSTER_EXPECTED_WORLD_SIZE", "value": str(_NODES * _GPUS)},
    ]


def job(*, claims: bool = False, nodes: int = _NODES) -> dict[str, Any]:
    """Return the JobSet, about 1.3 kB; with `claims` it asks for a profile."""
    container = {
        "name": "node",
        "image": "ghcr.io/muster-dev/trl:0.1.0",
        "command": ["trl", "sft"],
        "args": ["--model_name_or_path=Qwen/Qwen2.5-7B", "--dataset_name=trl-lib/Capybara", "--output_dir=/out"],
        "env": [{"name": f"SETTING_{index}", "value": "x" * 40} for index in range(6)],
        "resources": {"limits": {"nvidia.com/gpu": str(_GPUS), "cpu": "16", "memory": "64Gi"}},
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    work = {"parallelism": nodes, "completions": nodes, "completionMode": "Indexed", "template": {"spec": pod}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    metadata: dict[str, Any] = {
        "name": NAME,
        "namespace": "default",
        "labels": {"trainer.kubeflow.org/framework": "trl"},
    }
    if claims:
        metadata["annotations"] = {_PROFILE_ANNOTATION: PROFILE}
    replicated = {"name": "node", "replicas": 1, "template": {"metadata": {"labels": labels}, "spec": work}}
    network = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    spec = {"network": network, "replicatedJobs": [replicated]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def review(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the AdmissionReview of its creation as a dry run, as an API server sends it."""
    group, _, version = document["apiVersion"].partition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    resource = {"group": group, "version": version, "resource": "jobsets"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "requestKind": kind,
        "resource": resource,
        "requestResource": resource,
        "operation": "CREATE",
        "name": NAME,
        "namespace": "default",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": document,
        "oldObject": None,
        "dryRun": True,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "dryRun": ["All"]},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def missing(document: Mapping[str, Any]) -> list[str]:
    """Return the `PARTS` of the change that a stored JobSet lacks; all of them if nothing was changed."""
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    present = {each["name"]: each for each in container.get("env", ())}
    wrong = [each["name"] for each in variables() if present.get(each["name"]) != each]
    found = {
        "command": container.get("command") == COMMAND,
        "variables": not set(wrong) - set(_NAMED),
        "names of the first pod": not set(wrong) & set(_NAMED),
        "claim": bool(pod.get("resourceClaims")) and bool(container["resources"].get("claims")),
    }
    return [part for part in PARTS if not found[part]]
