"""What must hold between the parts of our manifests, which no schema says and Trainer or JobSet trips over at run time.

Sources: Trainer v2.3.0 `pkg/webhooks` and `pkg/runtime/framework/plugins/jobset`, JobSet v0.12.0 `pkg/webhooks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.claims import requests
from tests.manifests import kinds, shapes

__all__ = ["check"]

Document = Mapping[str, Any]

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
ROLE = "muster.dev/role"
FRAMEWORK = "trainer.kubeflow.org/framework"
FRAMEWORKS = ("torch", "torchtune", "trl", "vllm")
ANNOTATIONS = {
    "muster.dev/rendezvous": {"static", "c10d"},
    "muster.dev/trl-method": {"sft", "dpo", "grpo", "kto", "reward", "rloo", "distillation"},
    "muster.dev/vllm-features": {"sleep", "lora"},
}
CLAIMS = "muster.dev/resource-claims"
CONTAINERS = {"trainer": "node", "dataset-initializer": "dataset-initializer", "model-initializer": "model-initializer"}
LONGEST = 63


def check(document: Document, runtimes: Mapping[str, Document]) -> list[str]:
    """Return every problem of one document; `runtimes` are those that a TrainJob may name."""
    key = (str(document.get("apiVersion")), str(document.get("kind")))
    if key not in kinds.KINDS:
        return [f"{key[1]} of {key[0]} is not a kind of ours"]
    found = list(shapes.problems(document, kinds.KINDS[key]))
    if found:
        return found
    found += _metadata_problems(document)
    match key[1]:
        case "ClusterTrainingRuntime":
            found += _runtime_problems(document)
        case "JobSet":
            found += _jobset_problems(document["spec"], document["metadata"].get("name", ""))
        case "TrainJob":
            found += _trainjob_problems(document, runtimes)
    return found


def _metadata_problems(document: Document) -> Iterator[str]:
    metadata = document["metadata"]
    if ("name" in metadata) == ("generateName" in metadata):
        yield "metadata: give either name or generateName"
    label = metadata.get("labels", {}).get(FRAMEWORK)
    if label is not None and label not in FRAMEWORKS:
        yield f"metadata.labels: {FRAMEWORK} {label!r} is none of {', '.join(FRAMEWORKS)}"
    for name, value in metadata.get("annotations", {}).items():
        if name == CLAIMS:
            yield from (str(problem) for problem in requests.read(value, "metadata.annotations")[1])
        elif name.startswith("muster.dev/") and not set(value.split(",")) <= ANNOTATIONS.get(name, set()):
            yield f"metadata.annotations: {name}: {value!r} means nothing to Muster"


def _runtime_problems(document: Document) -> Iterator[str]:
    spec = document["spec"]["template"]["spec"]
    if FRAMEWORK not in document["metadata"].get("labels", {}):
        yield f"metadata.labels: {FRAMEWORK} is missing; the SDK skips such a runtime"
    steps = [_step(job) for job in spec["replicatedJobs"]]
    if steps.count("trainer") != 1:
        yield f"replicatedJobs: {steps.count('trainer')} jobs are the trainer step; there must be one"
    for job in spec["replicatedJobs"]:
        yield from _step_problems(job)
    yield from _jobset_problems(spec, "")


def _step_problems(job: Document) -> Iterator[str]:
    step, name = _step(job), job["name"]
    if step == "None" and _role(job) == "sampler":
        return
    if step not in CONTAINERS:
        yield f"replicatedJobs[{name}]: label {ANCESTOR} is {step!r}; use one of {', '.join(CONTAINERS)}"
        return
    container = next((each for each in _containers(job) if each["name"] == CONTAINERS[step]), None)
    if container is None:
        yield f"replicatedJobs[{name}]: step {step} needs a container {CONTAINERS[step]!r}"
    elif step != "trainer" and "initializer" not in _mounts(container):
        yield f"replicatedJobs[{name}]: {container['name']} needs a volumeMount called 'initializer'"
    if job.get("replicas", 1) != 1:
        yield f"replicatedJobs[{name}]: Trainer wants one replica of a step"


def _jobset_problems(spec: Document, jobset: str) -> Iterator[str]:
    earlier: set[str] = set()
    claims = {
        claim["metadata"]["name"] for policy in spec.get("volumeClaimPolicies", ()) for claim in policy["templates"]
    }
    for job in spec["replicatedJobs"]:
        for dependency in job.get("dependsOn", ()):
            if dependency["name"] not in earlier:
                yield f"replicatedJobs[{job['name']}]: depends on {dependency['name']!r}, which is no earlier job"
        earlier.add(job["name"])
        volumes = claims | {volume["name"] for volume in job["template"]["spec"]["template"]["spec"].get("volumes", ())}
        for container in _containers(job):
            for missing in sorted(_mounts(container) - volumes):
                yield f"replicatedJobs[{job['name']}]: {container['name']} mounts {missing!r}, which is not a volume"
        yield from _length_problems(f"{jobset}-{job['name']}-{job.get('replicas', 1) - 1}-0-abcde")


def _trainjob_problems(document: Document, runtimes: Mapping[str, Document]) -> Iterator[str]:
    spec, name = document["spec"], document["metadata"].get("name", "")
    runtime = runtimes.get(spec["runtimeRef"]["name"])
    if runtime is None:
        yield f"spec.runtimeRef.name: {spec['runtimeRef']['name']!r} is not a runtime of ours"
        return
    jobs = {job["name"]: job for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    for step in spec.get("initializer", {}):
        if f"{step}-initializer" not in jobs:
            yield f"spec.initializer.{step}: the runtime has no job {step}-initializer"
    for patch in spec.get("runtimePatches", ()):
        for job in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            known = {each["name"] for each in _containers(jobs[job["name"]])} if job["name"] in jobs else set()
            for container in job["template"]["spec"]["template"]["spec"].get("containers", ()):
                if container["name"] not in known:
                    yield f"spec.runtimePatches: the runtime has no container {job['name']}/{container['name']}"
    last = max(spec.get("trainer", {}).get("numNodes", 1) - 1, 0)
    yield from _length_problems(f"{name}-node-0-{last}-abcde")


def _length_problems(pod: str) -> Iterator[str]:
    if len(pod) > LONGEST:
        yield f"metadata.name: the pod {pod!r} has {len(pod)} characters; {LONGEST} are allowed"


def _step(job: Document) -> str:
    return str(job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR))


def _role(job: Document) -> str:
    return str(job["template"].get("metadata", {}).get("labels", {}).get(ROLE))


def _containers(job: Document) -> list[Document]:
    return list(job["template"]["spec"]["template"]["spec"]["containers"])


def _mounts(container: Document) -> set[str]:
    return {mount["name"] for mount in container.get("volumeMounts", ())}
