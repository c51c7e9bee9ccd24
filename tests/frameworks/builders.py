"""Documents as people and Trainer write them, and a short way to see what a strategy makes of them.

`jobset_of` builds the JobSet that Trainer v2.3.0 makes of a TrainJob, env order and all (its `pkg/runtime`, torch and
jobset plugins); the numbers in it are those that tests/golden compares with Trainer's own.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache

from muster.strategies.changes.changes import Changes
from muster.strategies.checks.job_checks import check_job
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.frameworks import builtin
from muster.strategies.jobs.jobs import Job, Settings
from muster.strategies.launches import program_kinds, topologies

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
FRAMEWORK = "trainer.kubeflow.org/framework"
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
GPU = "nvidia.com/gpu"
NEEDED = ("--model_name_or_path=m", "--dataset_name=d")


def gpus(count):
    return {"limits": {GPU: count}}


def replicated_job(name, container, *, step=None, replicas=None, pod=None, **spec):
    container = {"image": "example.org/image:1", **container}
    job = {
        "name": name,
        "template": {"spec": {**spec, "template": {"spec": {**(pod or {}), "containers": [container]}}}},
    }
    if step:
        job["template"]["metadata"] = {"labels": {ANCESTOR: step}}
    return job if replicas is None else {**job, "replicas": replicas}


def initializer(name):
    return replicated_job(
        name, {"name": name, "image": "init", "env": [{"name": "STORAGE_URI", "value": "hf://x"}]}, step=name
    )


def runtime(  # what a runtime may say
    framework="torch",
    *,
    name="runtime",
    policy=None,
    network=None,
    annotations=None,
    pod=None,
    initializers=(),
    job_name="node",
    **container,
):
    """A ClusterTrainingRuntime; `container` holds the members of the training container."""
    training = replicated_job(job_name, {"name": "node", "image": "i", **container}, step="trainer", pod=pod)
    jobs = [*(initializer(each) for each in initializers), training]
    spec = {"replicatedJobs": jobs, **({"network": network} if network else {})}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {FRAMEWORK: framework}, "annotations": annotations or {}},
        "spec": {"mlPolicy": {"torch": {}} if policy is None else policy, "template": {"spec": spec}},
    }


def trainjob(trainer=None, *, name="job", annotations=None, runtime_name="runtime"):
    """A TrainJob; without a name it has a generateName, and `trainer=None` leaves spec.trainer out."""
    metadata = {"name": name} if name else {"generateName": "job-"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {**metadata, "annotations": annotations} if annotations else metadata,
        "spec": {"runtimeRef": {"name": runtime_name}, **({} if trainer is None else {"trainer": trainer})},
    }


def jobset(*jobs, name="set", framework="torch", annotations=None, **spec):
    """A JobSet that people write themselves, without Trainer."""
    metadata = {"name": name, "labels": {FRAMEWORK: framework}, "annotations": annotations or {}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {**spec, "replicatedJobs": list(jobs)},
    }


def jobset_of(document, governing):
    """The JobSet that Trainer makes of a TrainJob, before any other webhook sees it."""
    subject = Job("TrainJob", Changes(document), runtime=Runtime(governing, "live"))
    trainer, name = document["spec"].get("trainer"), document["metadata"]["name"]
    spec = copy.deepcopy(governing["spec"]["template"]["spec"])
    for job in spec["replicatedJobs"]:
        training = job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR) == "trainer"
        nodes = topologies.read_topology(subject).nodes if training else 1
        job["replicas"] = 1
        job["template"]["spec"] |= {"parallelism": nodes, "completions": nodes}
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            if training and container["name"] == "node" and trainer is not None:
                _apply(container, trainer, name, nodes, topologies.trainer_processes(subject))
    owner = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": name,
        "controller": True,
        "uid": "u",
    }
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _apply(container, trainer, name, nodes, processes):
    for member in ("command", "args", "image"):
        if trainer.get(member) is not None:
            container[member] = trainer[member]
    if trainer.get("resourcesPerNode") is not None:
        own, over = container.get("resources", {}), trainer["resourcesPerNode"]
        container["resources"] = {part: own.get(part, {}) | over.get(part, {}) for part in ("limits", "requests")}
    pet = [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(processes)},
        {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}},
        {"name": "PET_MASTER_ADDR", "value": f"{name}-node-0-0.{name}"},
        {"name": "PET_MASTER_PORT", "value": "29500"},
    ]
    if trainer.get("command") == ["tune", "run"]:
        pet = pet[:3]
    merged = {entry["name"]: entry for entry in [*container.get("env", ()), *trainer.get("env", ()), *pet]}
    container["env"] = list(merged.values())
    container["ports"] = [{"containerPort": 29500}]


@dataclass
class Outcome:
    """What a strategy made of a document."""

    document: dict
    changes: Changes

    @property
    def container(self):
        spec = self.document["spec"]
        if self.document["kind"] == "TrainJob":
            return spec.get("trainer") or {}
        jobs = spec["replicatedJobs"]
        chosen = [
            job for job in jobs if job["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR) == "trainer"
        ]
        return (chosen or jobs)[0]["template"]["spec"]["template"]["spec"]["containers"][0]

    @property
    def argv(self):
        return [*self.container.get("command", ()), *self.container.get("args", ())]

    @property
    def env(self):
        return {
            entry["name"]: entry.get("value", entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"))
            for entry in self.container.get("env", ())
        }

    @property
    def added(self):
        """Env that the strategy added."""
        names = [change.after.get("name") for change in self.changes if isinstance(change.after, dict)]
        lists = [change.after for change in self.changes if isinstance(change.after, list)]
        names += [entry["name"] for entries in lists for entry in entries if isinstance(entry, dict)]
        return {name: value for name, value in self.env.items() if name in names}

    @property
    def warnings(self):
        return [finding.message for finding in self.changes.findings]

    @property
    def rules(self):
        return [finding.rule for finding in self.changes.findings]

    @property
    def reasons(self):
        return " | ".join(change.reason for change in self.changes)


@cache
def _registry():
    return builtin.load(plugins=False)


def job_of(document, governing=None, owner=None, claims=None, settings=None):
    governed = Runtime(governing, "live") if governing else None
    if governed is None and document["kind"] == "JobSet":
        governed = Runtime({"metadata": {"labels": document["metadata"].get("labels", {})}}, "label")
    return Job(
        kind=document["kind"],
        changes=Changes(document),
        namespace="default",
        runtime=governed,
        owner=owner,
        claim_devices=claims or {},
        settings=settings or Settings(),
        identify=program_kinds.identify,
    )


def enforce(framework, document, governing=None, **more):
    """Run the three enforcing methods, as the admission pipeline does; the document itself must stay as it was."""
    before = copy.deepcopy(document)
    job, chosen = job_of(document, governing, **more), _registry().get(framework).strategy
    for method in (chosen.enforce_command, chosen.enforce_rendezvous, chosen.enforce_claims):
        for view in job.views:
            method(view, job.changes)
    assert document == before
    return Outcome(job.document, job.changes)


def found(framework, document, governing=None, **more):
    """What validation says, with the checks that hold for every framework; see `notable`."""
    job = job_of(document, governing, **more)
    strategy = _registry().get(framework).strategy
    return notable([*check_job(job), *(finding for view in job.views for finding in strategy.validate(view))])


def notable(found):
    """All but the note that no volume is at /dev/shm, which is true of each pod of several GPUs that tests make."""
    return [each for each in found if each.rule != "core/shared-memory"]


def refused(framework, document, governing=None, **more):
    """(field, value, rule) of every error that validation has once the document was mutated."""
    mutated = enforce(framework, document, governing, **more).document
    errors = findings.errors(found(framework, mutated, governing, **more))
    return [(finding.field, finding.value, finding.rule) for finding in errors]


def warned(framework, document, governing=None, **more):
    """Rules of the warnings of validation after mutation."""
    mutated = enforce(framework, document, governing, **more).document
    return [each.rule for each in found(framework, mutated, governing, **more) if each.severity is Severity.WARNING]


def run(framework, document, governing, **more):
    """A TrainJob all the way: its own admission, Trainer, and the admission of its JobSet."""
    first = enforce(framework, document, governing, **more)
    made = jobset_of(first.document, governing)
    return first, enforce(framework, made, governing, owner=first.document, **more)
