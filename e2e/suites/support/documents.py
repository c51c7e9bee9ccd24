"""Documents: small, complete TrainJobs, runtimes and JobSets that a test then makes its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["FAKE", "config_map", "jobset", "pod_spec", "training_runtime", "trainjob"]

FRAMEWORK_LABEL = "trainer.kubeflow.org/framework"
ANCESTOR_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
ENDS_LABEL = "e2e.muster.dev/ends"
IMAGE = "muster.test/none:0"
"""Nothing pulls it: pods on KWOK's nodes are not run."""

FAKE: dict[str, Any] = {
    "nodeSelector": {"type": "kwok"},
    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Equal", "value": "fake", "effect": "NoSchedule"}],
}
"""Members of a pod's spec that send it to KWOK's nodes."""


def training_runtime(
    name: str,
    framework: str | None = "torch",
    *,
    nodes: int = 1,
    image: str = IMAGE,
    command: Sequence[str] | None = None,
    args: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    resources: Mapping[str, Any] | None = None,
    fake: bool = True,
    ends: bool = False,
    policy: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    initializers: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    network: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A namespaced TrainingRuntime with one replicated job `node`, and one for each initializer before it.

    Args:
        name: the name of the runtime.
        framework: value of its framework label; None for no label.
        nodes: `mlPolicy.numNodes`.
        image, command, args, env, resources: of the training container `node`.
        fake: whether its pods go to KWOK's nodes.
        ends: whether KWOK lets its pods succeed by themselves.
        policy: members of `mlPolicy` besides numNodes; `{"torch": {}}` by default.
        container, pod: further members of the container and of the pod's spec; they win.
        initializers: `dataset-initializer`, `model-initializer`; the training waits for them.
        annotations: the annotations of the runtime.
        network: the network of the JobSet template.
    """
    wanted = {"image": image, "command": command, "args": args, "env": _env(env), "resources": resources}
    node = {"name": "node", **_given(wanted), **(container or {})}
    spec = pod_spec(node, fake=fake, **(pod or {}))
    jobs = [_initializer(each, image, fake=fake, ends=ends) for each in initializers]
    after = [{"name": each, "status": "Complete"} for each in initializers]
    jobs.append(_job("node", "trainer", spec, ends=ends, **({"dependsOn": after} if after else {})))
    metadata = {"name": name, "labels": {FRAMEWORK_LABEL: framework} if framework else {}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {**metadata, **_given({"annotations": annotations})},
        "spec": {
            "mlPolicy": {"numNodes": nodes, **({"torch": {}} if policy is None else policy)},
            "template": {"spec": {"replicatedJobs": jobs, **_given({"network": network})}},
        },
    }


def trainjob(
    name: str,
    runtime: str,
    *,
    kind: str = "TrainingRuntime",
    trainer: Mapping[str, Any] | None = None,
    suspend: bool | None = None,
    generate: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A TrainJob.

    Args:
        name: the name of the job, or with `generate` the start of its generated name.
        runtime: name of its runtime.
        kind: the kind of its runtime.
        trainer: `spec.trainer`, which is left out when it is None.
        suspend: `spec.suspend`, likewise.
        generate: whether the API server completes the name; such a job is created, not applied.
        labels, annotations: the labels and annotations of the job.
        spec: further members of the spec.
    """
    metadata = {"generateName" if generate else "name": name, **_given({"labels": labels, "annotations": annotations})}
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": kind, "name": runtime}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {"runtimeRef": reference, **_given({"trainer": trainer, "suspend": suspend}), **spec},
    }


def jobset(
    name: str,
    framework: str | None = "vllm",
    *,
    nodes: int = 1,
    image: str = IMAGE,
    command: Sequence[str] | None = None,
    args: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    resources: Mapping[str, Any] | None = None,
    fake: bool = True,
    suspend: bool | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    container: str = "node",
    step: str | None = "trainer",
) -> dict[str, Any]:
    """A JobSet that Trainer did not make, with one replicated job `node` of `nodes` pods.

    Args:
        framework: value of its framework label; None for no label.
        container: name of its container.
        step: value of the job's ancestor label, by which Muster finds the training container; None for no label.
        name, nodes, image, command, args, env, resources, fake, suspend, annotations, labels: as of `trainjob` and
            `training_runtime`.
    """
    wanted = {"image": image, "command": command, "args": args, "env": _env(env), "resources": resources}
    spec = pod_spec({"name": container, **_given(wanted)}, fake=fake, restartPolicy="OnFailure")
    job = _job("node", step, spec, parallelism=nodes, completions=nodes)
    marks = {**({FRAMEWORK_LABEL: framework} if framework else {}), **(labels or {})}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": marks, **_given({"annotations": annotations})},
        "spec": {"replicatedJobs": [job], **_given({"suspend": suspend})},
    }


def pod_spec(*containers: Mapping[str, Any], fake: bool = True, **spec: Any) -> dict[str, Any]:
    """A pod's spec; with `fake` its pods go to KWOK's nodes."""
    return {**(FAKE if fake else {}), "containers": list(containers), **spec}


def config_map(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(data)}


def _initializer(name: str, image: str, *, fake: bool, ends: bool) -> dict[str, Any]:
    """A replicated job as Trainer wants an initializer: its volume is called `initializer`."""
    mount = {"name": "initializer", "mountPath": "/workspace"}
    container = {"name": name, "image": image, "volumeMounts": [mount]}
    spec = pod_spec(container, fake=fake, volumes=[{"name": "initializer", "emptyDir": {}}])
    return _job(name, name, spec, ends=ends)


def _job(name: str, step: str | None, pod: Mapping[str, Any], *, ends: bool = False, **spec: Any) -> dict[str, Any]:
    after = {"dependsOn": spec.pop("dependsOn")} if "dependsOn" in spec else {}
    template: dict[str, Any] = {"spec": pod}
    if ends:
        template["metadata"] = {"labels": {ENDS_LABEL: "true"}}
    marks = {"metadata": {"labels": {ANCESTOR_LABEL: step}}} if step else {}
    return {"name": name, **after, "template": {**marks, "spec": {**spec, "template": template}}}


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def _env(env: Mapping[str, str] | None) -> list[dict[str, str]] | None:
    return None if env is None else [{"name": name, "value": value} for name, value in env.items()]
