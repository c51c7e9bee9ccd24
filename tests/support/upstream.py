"""What Trainer v2.3.0, JobSet v0.12.0 and Kueue do to the objects that Muster sees, as far as Muster can notice it.

Each function names its docs and sources; the same was observed on a real API server with both controllers.
"""

from __future__ import annotations

import copy

from tests.support.jobs import ANCESTOR

_MUTABLE_POD_METADATA = ("annotations", "labels")
_MUTABLE_POD_SPEC = ("nodeSelector", "tolerations", "schedulingGates")
_IMMUTABLE = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies", "dependsOn")


def default_trainjob(trainjob, moment="2026-11-21T00:00:00Z"):
    """Trainer's mutating webhook: stamps `runtimePatches[].time`; kubebuilder defaults of the CRD."""
    out = copy.deepcopy(trainjob)
    for patch in out["spec"].get("runtimePatches") or ():
        patch.setdefault("time", moment)
    out["spec"].setdefault("suspend", False)
    out["spec"]["runtimeRef"] = {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
        **out["spec"]["runtimeRef"],
    }
    return out


def default_jobset(jobset):
    """JobSet's mutating webhook, at CREATE only (`pkg/webhooks/jobset_webhook.go` Default)."""
    out = copy.deepcopy(jobset)
    spec = out["spec"]
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for job in spec.get("replicatedJobs") or ():
        job.setdefault("groupName", "default")
        job.setdefault("replicas", 1)
        inner = job["template"].setdefault("spec", {})
        inner.setdefault("completionMode", "Indexed")
        inner.setdefault("template", {}).setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    return out


def suspend(trainjob):
    """Kueue's webhook at CREATE: a job with a queue waits."""
    out = copy.deepcopy(trainjob)
    out["spec"]["suspend"] = True
    out["metadata"].setdefault("labels", {})["kueue.x-k8s.io/queue-name"] = "gpus"
    return out


def start(trainjob, flavor="h200"):
    """Kueue admits: resumes and says where the pods may run."""
    out = stop(trainjob)
    pod = {"metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}}, "spec": {"nodeSelector": {"flavor": flavor}}}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    patch = {
        "manager": "kueue.x-k8s.io/manager",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    out["spec"].setdefault("runtimePatches", []).append(patch)
    out["spec"]["suspend"] = False
    return default_trainjob(out)


def stop(trainjob):
    """Kueue evicts: suspends and removes its placement."""
    out = copy.deepcopy(trainjob)
    kept = [each for each in out["spec"].get("runtimePatches") or () if not each["manager"].startswith("kueue")]
    if "runtimePatches" in out["spec"]:
        out["spec"]["runtimePatches"] = kept
    out["spec"]["suspend"] = True
    return out


def build_jobset(trainjob, runtime):
    """Trainer's apply configuration of the JobSet (jobset, torch and plainml plugins)."""
    template = copy.deepcopy(runtime["spec"]["template"])
    spec = template["spec"]
    for job in spec["replicatedJobs"]:
        if ((job["template"].get("metadata") or {}).get("labels") or {}).get(ANCESTOR) == "trainer":
            _train(job, trainjob, runtime)
    for patch in trainjob["spec"].get("runtimePatches") or ():
        _patch(spec, patch)
    owner = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": trainjob["metadata"]["name"],
        "uid": trainjob["metadata"].get("uid"),
        "controller": True,
    }
    metadata = {**(template.get("metadata") or {}), "name": owner["name"], "ownerReferences": [owner]}
    metadata["namespace"] = trainjob["metadata"]["namespace"]
    spec["suspend"] = trainjob["spec"].get("suspend", False)
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _train(job, trainjob, runtime):
    trainer, policy = trainjob["spec"].get("trainer"), runtime["spec"]["mlPolicy"]
    nodes = (trainer or {}).get("numNodes") or policy.get("numNodes") or 1
    inner = job["template"]["spec"]
    inner["parallelism"] = inner["completions"] = nodes
    container = next(each for each in inner["template"]["spec"]["containers"] if each["name"] == "node")
    if trainer is None:
        return
    for member in ("image", "command", "args"):
        if member in trainer:
            container[member] = copy.deepcopy(trainer[member])
    resources = trainer.get("resourcesPerNode")
    if resources is not None:
        old = container.get("resources") or {}
        parts = ("limits", "requests")
        container["resources"] = {part: {**(old.get(part) or {}), **(resources.get(part) or {})} for part in parts}
    if "torch" in policy:
        _upsert(container, [*(trainer.get("env") or ()), *_rendezvous(trainjob, nodes), *(trainer.get("env") or ())])
        container.setdefault("ports", []).append({"containerPort": 29500, "protocol": "TCP"})


def _rendezvous(trainjob, nodes):
    """The env of Trainer's torch plugin."""
    name, processes = trainjob["metadata"]["name"], trainjob["spec"]["trainer"].get("numProcPerNode", "auto")
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    return [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(processes)},
        {"name": "PET_NODE_RANK", "valueFrom": index},
        {"name": "PET_MASTER_ADDR", "value": f"{name}-node-0-0.{name}"},
        {"name": "PET_MASTER_PORT", "value": "29500"},
    ]


def _upsert(container, entries):
    env = {entry["name"]: entry for entry in container.get("env") or ()}
    env |= {entry["name"]: copy.deepcopy(entry) for entry in entries}
    container["env"] = list(env.values())


def _patch(spec, patch):
    wanted = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    for job in wanted:
        pod = job["template"]["spec"]["template"]
        for target in (each for each in spec["replicatedJobs"] if each["name"] == job["name"]):
            own = target["template"]["spec"]["template"]
            own.setdefault("metadata", {}).setdefault("labels", {}).update(
                (pod.get("metadata") or {}).get("labels") or {}
            )
            own["spec"].update(copy.deepcopy(pod.get("spec") or {}))


def refuse_jobset(old, new):
    """JobSet's validating webhook at UPDATE: return the names of what must not change and did (vjobset, CEL)."""
    pausing = old["spec"].get("suspend") or new["spec"].get("suspend")
    refused = [name for name in _IMMUTABLE if old["spec"].get(name) != new["spec"].get(name)]
    if _frozen(old, mutable=pausing) != _frozen(new, mutable=pausing):
        refused.append("replicatedJobs")
    return refused


def _frozen(jobset, *, mutable):
    every = copy.deepcopy(jobset["spec"]["replicatedJobs"])
    for job in every if mutable else ():
        pod = job["template"]["spec"]["template"]
        for member in _MUTABLE_POD_METADATA:
            (pod.get("metadata") or {}).pop(member, None)
        if not pod.get("metadata"):
            pod.pop("metadata", None)
        for member in _MUTABLE_POD_SPEC:
            pod["spec"].pop(member, None)
    return every


def refuse_trainjob(old, new):
    """The CRD's `self == oldSelf` rules: skipped where a member appears or disappears."""
    members = ("runtimeRef", "trainer", "initializer", "managedBy")
    both = [name for name in members if name in old["spec"] and name in new["spec"]]
    return [name for name in both if old["spec"][name] != new["spec"][name]]
