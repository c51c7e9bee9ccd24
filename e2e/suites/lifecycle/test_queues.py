"""What a queue writes into a waiting job (placement, labels, gates) reaches its pods, and Muster's part stays."""

from __future__ import annotations

import json

import pytest

from e2e.suites.lifecycle import cases, lives, scenes
from e2e.suites.lifecycle.lives import Life
from e2e.suites.support import documents, thorough, waits
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS

GATE = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
PLACED = {
    "metadata": {
        "labels": {"kueue.x-k8s.io/podset": "node"},
        "annotations": {"kueue.x-k8s.io/workload": "wl-1"},
    },
    "spec": documents.FAKE,
}


@pytest.fixture
def life(space, installation):
    """A waiting job that may run nowhere yet: only the queue's placement sends its pods to nodes that take them."""
    runtime = documents.training_runtime(
        "trl", "trl", nodes=2, fake=False, resources={"limits": {"nvidia.com/gpu": "1"}}
    )
    # A template without any metadata of its own cannot lose what a queue put there: the API server then makes it null
    # and refuses it, also without Muster.
    template = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"team": "a"}, "annotations": {"team": "a"}}
    lives.submit(space, runtime, cases.CASES["trl"].job(suspend=True))
    life = Life(space, "life", installation)
    life.wait("suspended")
    return life


def by_patches_of_the_runtime(space, pod, *, suspend):
    """As Kueue does it: a runtimePatch of its own, in one write with the resumption."""
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    runtime = {"template": {"spec": {"replicatedJobs": [job]}}}
    patch = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": runtime}
    lives.patch_runtime(space, "life", {"suspend": suspend, "runtimePatches": [patch]})


def on_the_jobset(space, pod, *, suspend):
    """As any other controller may: on the JobSet's pod templates, as a field manager of its own."""
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "life"},
        "spec": {"replicatedJobs": [job]},
    }
    space.apply(document, server_side=True, manager="queue").expect()
    space.patch(TRAINJOBS, "life", {"spec": {"suspend": suspend}}).expect()


def on_the_jobset_by_update(space, pod, *, suspend):
    def replace():
        jobset = space.jobset("life")
        template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        template["metadata"] = {**template.get("metadata", {}), **pod["metadata"]}
        template["spec"].update(pod["spec"])
        command = ("replace", "-n", space.name, "--field-manager=queue", "-f", "-")
        return space.kubectl.run(*command, stdin=json.dumps(jobset))

    lives.edit("the JobSet", replace).expect()
    space.patch(TRAINJOBS, "life", {"spec": {"suspend": suspend}}).expect()


WRITERS = {each.__name__: each for each in (by_patches_of_the_runtime, on_the_jobset, on_the_jobset_by_update)}


def is_placed(pod):
    metadata, wanted = pod["metadata"], PLACED["metadata"]
    held = [toleration["key"] for toleration in pod["spec"]["tolerations"]]
    return (
        wanted["labels"].items() <= metadata["labels"].items()
        and wanted["annotations"].items() <= metadata["annotations"].items()
        and pod["spec"]["nodeSelector"]["type"] == "kwok"
        and documents.FAKE["tolerations"][0]["key"] in held
    )


@pytest.mark.parametrize("write", thorough.but_named("by_patches_of_the_runtime", of=WRITERS))
def test_placement_written_while_the_job_waits_reaches_its_pods(space, life, write):
    write(space, PLACED, suspend=True)
    life.poke()
    scene = life.resume()
    assert len(scene.pods) == 2
    assert all(is_placed(pod) for pod in scene.pods)
    assert all(cases.CASES["trl"].shows(each) for each in [scene.jobset])
    life.suspend()
    scene = life.resume()
    assert all(is_placed(pod) for pod in scene.pods)
    life.delete()


def test_placement_written_with_the_resumption_reaches_the_pods_and_is_taken_back(space, life):
    by_patches_of_the_runtime(space, PLACED, suspend=False)
    assert all(is_placed(pod) for pod in life.wait("running").pods)
    life.suspend()
    lives.patch_runtime(space, "life", {"runtimePatches": None})
    life.poke(1)

    def is_taken_back():
        template = life.wait("suspended").jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        labels = template.get("metadata", {}).get("labels", {})
        return "nodeSelector" not in template["spec"] and "kueue.x-k8s.io/podset" not in labels

    waits.until("the placement to be taken back", is_taken_back)
    by_patches_of_the_runtime(space, PLACED, suspend=False)
    assert all(is_placed(pod) for pod in life.wait("running").pods)


@pytest.mark.parametrize("write", thorough.but_named("by_patches_of_the_runtime", of=WRITERS))
def test_gates_written_while_the_job_waits_hold_its_pods_until_they_are_lifted(space, life, write):
    write(space, {**PLACED, "spec": {**documents.FAKE, **GATE}}, suspend=True)
    life.poke(1)
    space.patch(TRAINJOBS, "life", {"spec": {"suspend": False}}).expect()
    pods = life.wait("released").pods
    waits.until("the pods to be gated", lambda: all(is_gated(pod) for pod in scenes.look(space, "life").pods))
    for pod in pods:
        lift = [{"op": "remove", "path": "/spec/schedulingGates"}]
        space.patch("pods", pod["metadata"]["name"], lift, type="json").expect()
    life.wait("running")
    life.suspend()


def is_gated(pod):
    reasons = {each["type"]: each.get("reason") for each in pod["status"].get("conditions", ())}
    return reasons.get("PodScheduled") == "SchedulingGated"


def test_labels_and_annotations_of_the_job_itself_are_free_at_any_time(space, life):
    by_patches_of_the_runtime(space, PLACED, suspend=False)
    life.wait("running")
    marks = {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}, "annotations": {"team": "a"}}
    for kind in (TRAINJOBS, JOBSETS):
        space.patch(kind, "life", {"metadata": marks}).expect()
        stored = space.get(kind, "life")["metadata"]
        assert marks["labels"].items() <= stored["labels"].items()
        assert marks["annotations"].items() <= stored["annotations"].items()
    life.check()
    space.patch(TRAINJOBS, "life", {"spec": {"suspend": True}}).expect()
    life.wait("suspended")
