"""Predictions: the JobSet that Trainer would make of a TrainJob and its runtime, by the version of the runtime.

Half of Muster's changes are made on the JobSet, because a TrainJob cannot hold env that derives from the job's name.
Trainer's steps are repeated here, so that people see those changes without a cluster: template, runtimePatches,
resources, overrides, the torch plugin's env, JobSet's defaults (trainer `pkg/runtime/core/trainingruntime.go` and
`plugins/{jobset,torch,plainml}`, jobset `pkg/webhooks/jobset_webhook.go`). `tests/golden` holds what Trainer itself
answers. The notes of a prediction say what it leaves out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.documents import decoding, model, names, trainjobs
from muster.strategies.documents.runtimes import NEWEST, Runtime
from muster.strategies.trainer import merges, ml_policies, resources, runtime_patches, torch_plugin

__all__ = ["Prediction", "UnpredictableError", "job_name", "made_by", "predict"]

_SUFFIX = "xxxxx"  # stands for the characters that the API server adds to a generateName
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}


class Prediction(Struct, frozen=True):
    """The JobSet that Trainer would make, and notes on how the real one may differ."""

    jobset: dict[str, Any]
    notes: tuple[str, ...]


class UnpredictableError(ValueError):
    """A member that only a prediction looks at has the wrong type; the API server would refuse the object."""


def predict(trainjob: Mapping[str, Any], runtime: Runtime, namespace: str) -> Prediction:
    """Return the JobSet that Trainer would make, with notes.

    Args:
        trainjob: the TrainJob as it will be stored; its shape has been checked.
        runtime: frozen or live; its shape has been checked.
        namespace: namespace of the TrainJob.

    Raises:
        UnpredictableError: the runtime or the TrainJob has a member that an API server would refuse.
    """
    try:
        return _predicted(trainjob, runtime, namespace)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"the JobSet cannot be predicted: a member of the job or its runtime has the wrong type ({error})"
        raise UnpredictableError(message) from error


def _predicted(trainjob: Mapping[str, Any], runtime: Runtime, namespace: str) -> Prediction:
    name = job_name(trainjob)
    runtime = runtime_patches.apply(runtime, trainjob)
    template: Mapping[str, Any] = (runtime.document.get("spec") or {}).get("template") or {}
    spec = copy.deepcopy(dict(template.get("spec") or {}))
    for job in spec.get("replicatedJobs") or ():
        _shape_job(job, trainjob, runtime)
        _initialize(job, trainjob)
        _override(job, trainjob)
    if runtime.is_torch:
        torch_plugin.inject(spec, trainjob, runtime, name)
    suspend = (trainjob.get("spec") or {}).get("suspend")
    if suspend is not None:
        spec["suspend"] = suspend
    _default(spec)
    jobset = {
        "apiVersion": names.JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": _metadata(trainjob, template, name, namespace),
        "spec": spec,
    }
    return Prediction(jobset, tuple(_notes(trainjob, runtime)))


def made_by(runtime: Runtime | None) -> str:
    """Return which Trainer a prediction is of."""
    return f"Kubeflow Trainer {(runtime.version if runtime else NEWEST).release}"


def job_name(trainjob: Mapping[str, Any]) -> str:
    """Return the name of the TrainJob and its JobSet, with a placeholder for what the API server will generate."""
    metadata = trainjob.get("metadata") or {}
    return str(metadata.get("name") or f"{metadata.get('generateName') or 'unnamed-'}{_SUFFIX}")


def _metadata(trainjob: Mapping[str, Any], template: Mapping[str, Any], name: str, namespace: str) -> dict[str, Any]:
    owner = {"apiVersion": names.TRAINER_API_VERSION, "kind": "TrainJob", "name": name}
    uid = (trainjob.get("metadata") or {}).get("uid")
    if uid is not None:
        owner["uid"] = uid
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    for member in ("labels", "annotations"):
        if (template.get("metadata") or {}).get(member):
            metadata[member] = dict(template["metadata"][member])
    metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return metadata


def _shape_job(job: dict[str, Any], trainjob: Mapping[str, Any], runtime: Runtime) -> None:
    """Set replicas, the number of pods, and the resources of the training container."""
    step, trainer = torch_plugin.step(job), decoding.read(trainjob, model.TrainJob).spec.trainer
    spec = job.setdefault("template", {}).setdefault("spec", {})
    typed = decoding.read(job, model.ReplicatedJob)
    count = ml_policies.parallelism(runtime.policy, typed, trainer)
    if step == names.ANCESTOR_TRAINER or step in _INITIALIZERS:
        job["replicas"] = 1
    spec["parallelism"] = spec["completions"] = count
    override, takes = trainer.resources_per_node, resources.takes(typed, runtime.policy)
    for container, each in zip(torch_plugin.containers(job), typed.pod.containers, strict=True):
        if takes and override not in (None, model.Resources()) and each.name == names.CONTAINER_NODE:
            container["resources"] = resources.written(resources.merge_resources(each.resources, override, runtime))
    raw = trainjobs.trainer(trainjob).get("resourceClaimsPerNode") or []
    claims = raw if runtime.version.counts_claims else []
    for container in torch_plugin.trainer_containers(job) if claims else ():
        pod = spec["template"]["spec"]
        pod["resourceClaims"] = merges.upsert(pod.get("resourceClaims") or [], claims, "name")
        own = container.setdefault("resources", {})
        own["claims"] = merges.upsert(own.get("claims") or [], [{"name": each["name"]} for each in claims], "name")


def _initialize(job: dict[str, Any], trainjob: Mapping[str, Any]) -> None:
    step = torch_plugin.step(job)
    initializer = (trainjob.get("spec") or {}).get("initializer") or {}
    wanted = initializer.get(_INITIALIZERS.get(str(step), "")) or {}
    for container in torch_plugin.containers(job):
        if container.get("name") != step or not wanted:
            continue
        uri = wanted.get("storageUri")
        env = [{"name": "STORAGE_URI", "value": uri}] if uri is not None else []
        container["env"] = merges.upsert(container.get("env") or [], env + (wanted.get("env") or []), "name")
        if wanted.get("secretRef"):
            source = {"secretRef": {"name": wanted["secretRef"].get("name")}}
            container["envFrom"] = [*(container.get("envFrom") or []), source]


def _override(job: Mapping[str, Any], trainjob: Mapping[str, Any]) -> None:
    """Replace image, command, args and env of the runtime by those of the TrainJob; env entry by entry."""
    trainer = trainjobs.trainer(trainjob)
    for container in torch_plugin.trainer_containers(job):
        for member in ("image", "command", "args"):
            if trainer.get(member) is not None:
                container[member] = trainer.get(member)
        if trainer.get("env"):
            container["env"] = merges.upsert(container.get("env") or [], list(trainer.get("env") or ()), "name")


def _default(spec: dict[str, Any]) -> None:
    """Set the defaults that JobSet's own webhook sets."""
    spec["network"] = {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **(spec.get("network") or {})}
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for job in spec.get("replicatedJobs") or ():
        job.setdefault("groupName", "default")
        job["template"]["spec"].setdefault("completionMode", "Indexed")
        pod = job["template"]["spec"].setdefault("template", {}).setdefault("spec", {})
        pod.setdefault("restartPolicy", "OnFailure")


def _notes(trainjob: Mapping[str, Any], runtime: Runtime) -> Iterator[str]:
    metadata = trainjob.get("metadata") or {}
    if not metadata.get("name"):
        yield f"{_SUFFIX} in the name stands for the characters that the API server will generate"
    others = [name for name in runtime.policy.sources if name != "torch"]
    if others:
        yield f"the prediction leaves out what Trainer's {', '.join(others)} plugin adds"
    if (runtime.document.get("spec") or {}).get("podGroupPolicy"):
        yield "the prediction leaves out the labels and annotations of the runtime's podGroupPolicy"
