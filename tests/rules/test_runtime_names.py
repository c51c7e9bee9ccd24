"""Parts of a runtime that a TrainJob names: replicated jobs, containers, initializers, as Trainer looks for them."""

from __future__ import annotations

import pytest

from tests.support import admissions, jobs

RUNTIME = jobs.make_runtime(framework=None)


def found(job, runtime=RUNTIME):
    findings = admissions.decide(job, runtime, phase="validate").findings
    return [each.field for each in findings if each.rule in ("core/patches", "core/initializer")]


def patched(replicated, manager="example.org/team"):
    job = jobs.make_trainjob()
    spec = {"template": {"spec": {"replicatedJobs": [replicated]}}}
    job["spec"]["runtimePatches"] = [{"manager": manager, "trainingRuntimeSpec": spec}]
    return job


def pod(name="node", **spec):
    return {"name": name, "template": {"spec": {"template": {"spec": spec}}}}


INSIDE = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs"
REFUSED = {
    "another job": (pod("trainer"), f"{INSIDE}[trainer].name"),
    "another container": (
        pod(containers=[{"name": "main"}]),
        f"{INSIDE}[node].template.spec.template.spec.containers[main].name",
    ),
    "another init container": (
        pod(initContainers=[{"name": "warm"}]),
        f"{INSIDE}[node].template.spec.template.spec.initContainers[warm].name",
    ),
    "env of the training container": (
        pod(containers=[{"name": "node", "env": [{"name": "A", "value": "1"}]}]),
        f"{INSIDE}[node].template.spec.template.spec.containers[node].env",
    ),
}


@pytest.mark.parametrize(("replicated", "field"), REFUSED.values(), ids=REFUSED)
def test_a_patch_of_what_the_runtime_has_not_is_refused(replicated, field):
    assert found(patched(replicated)) == [field]


@pytest.mark.parametrize("replicated", [pod(nodeSelector={"a": "b"}), pod(containers=[{"name": "node"}]), pod()])
def test_a_patch_of_what_the_runtime_has_is_fine(replicated):
    assert found(patched(replicated)) == []


@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/manager", "a.b/c/d", "team/x", "example.org/a_b"])
def test_a_manager_is_a_domain_and_a_path(manager):
    assert found(patched(pod(), manager)) == []


@pytest.mark.parametrize("manager", ["me", "", "/x", "example.org/", "Example.org/x", "-a/x", f"{'a' * 254}/x"])
def test_another_manager_is_refused(manager):
    assert found(patched(pod(), manager)) == ["spec.runtimePatches[0].manager"]


@pytest.mark.parametrize("member", ["dataset", "model"])
def test_an_initializer_needs_its_place_in_the_runtime(member):
    job = jobs.make_trainjob()
    job["spec"]["initializer"] = {member: {"storageUri": "hf://a/b"}}
    name, field = f"{member}-initializer", f"spec.initializer.{member}"
    assert found(job) == [field]

    runtime = jobs.make_runtime(framework=None)
    container = {"name": name, "image": "i", "volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}]}
    template = {
        "metadata": {"labels": {jobs.ANCESTOR: name}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    place = {"name": name, "template": template}
    (training,) = replicated = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    training["dependsOn"] = [{"name": name, "status": "Complete"}]
    replicated.insert(0, place)
    assert found(job, runtime) == []
    container["volumeMounts"][0]["name"] = "data"
    assert found(job, runtime) == [field]
    container["name"] = "main"
    assert found(job, runtime) == [field]
