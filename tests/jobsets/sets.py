"""JobSets of several replicated jobs and several containers, as people write them, and what Muster makes of them."""

from __future__ import annotations

from tests.support import admissions, jobs

GPU = "nvidia.com/gpu"
ROLE = "muster.dev/role"
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
TORCHRUN = ("torchrun", "train.py")
SERVE = ("vllm", "serve", "m")


def container(*command, name="main", gpus=0, image="example.org/train:1", **more):
    """A container; `gpus` is its limit."""
    made = {"name": name, "image": image, **more}
    if command:
        made["command"] = list(command)
    return made | ({"resources": {"limits": {GPU: gpus}}} if gpus else {})


def part(name, *containers, pods=1, replicas=None, role=None, labels=None, pod=None, **spec):
    """A replicated job of one indexed Job with `pods` pods."""
    template = {"spec": {**(pod or {}), "containers": list(containers)}}
    own = {**({ROLE: role} if role else {}), **(labels or {})}
    made = {
        "name": name,
        "template": {
            **({"metadata": {"labels": own}} if own else {}),
            "spec": {
                "completionMode": "Indexed",
                "parallelism": pods,
                "completions": pods,
                **spec,
                "template": template,
            },
        },
    }
    return made if replicas is None else {**made, "replicas": replicas}


def training(name, *command, gpus=8, pods=1, env=None, **more):
    """A replicated job of one container that holds GPUs."""
    own = {"env": [{"name": key, "value": value} for key, value in env.items()]} if env else {}
    return part(name, container(*(command or TORCHRUN), gpus=gpus, **own), pods=pods, **more)


def jobset(*parts, framework="torch", name="set", **spec):
    """A JobSet with a framework label."""
    labels = {"trainer.kubeflow.org/framework": framework} if framework else {}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": jobs.NAMESPACE, "labels": labels},
        "spec": {**spec, "replicatedJobs": list(parts)},
    }


def decided(document, *cluster):
    """The document as it is stored, and all findings of mutation and validation but `core/shared-memory`."""
    mutated = admissions.decide(document, *cluster)
    stored = dict(mutated.document)
    judged = admissions.decide(stored, *cluster, phase="validate")
    again = admissions.decide(stored, *cluster)
    assert list(again.changes) == []
    found = [*mutated.findings, *judged.findings]
    return stored, [each for each in found if each.rule != "core/shared-memory"]  # true of each pod of several GPUs


def env_of(document, job, index=0):
    """Env of container `index` of a replicated job: plain values, or the last part of the field they come from."""
    chosen = next(each for each in document["spec"]["replicatedJobs"] if each["name"] == job)
    own = chosen["template"]["spec"]["template"]["spec"]["containers"][index].get("env") or ()
    return {
        entry["name"]: entry["value"] if "value" in entry else entry["valueFrom"]["fieldRef"]["fieldPath"]
        for entry in own
    }


def touched(document):
    """(replicated job, container) of every container that has a MASTER_ADDR or a probe of Muster's."""
    made, _ = decided(document)
    return [
        (job["name"], each["name"])
        for job in made["spec"]["replicatedJobs"]
        for each in job["template"]["spec"]["template"]["spec"]["containers"]
        if "readinessProbe" in each or any(entry["name"] == "PET_NNODES" for entry in each.get("env") or ())
    ]


def rules(document, *cluster):
    """Severity and rule of every finding, in order of the rules."""
    return sorted((finding.severity.value, finding.rule) for finding in decided(document, *cluster)[1])
