"""`muster doctor --guard` starts the guard on each node as a training would, says where it fails, and cleans up."""

from __future__ import annotations

import json

import pytest

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import pods
from muster.strategies.launches import guard_additions
from muster.strategies.launches.guard_additions import Guard
from tests.doctor import worlds
from tests.doctor.worlds import RefusedError

IMAGE = "registry.example/muster-webhook:0.1.0"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def created(world):
    """The pods that were created; the nodes are tried at once, so their order is anyone's."""
    found, status = [], world.started

    def started(pod):
        found.append(pod)
        return status(pod)

    world.started = started
    return found


def left(world):
    return [path for path in world.objects if path.startswith(f"{PODS}/")]


async def test_no_pod_is_started_unless_it_is_asked_for(world, examine, created):
    assert await examine("guard") == []
    assert not created
    assert "POST" not in {method for method, path, _ in world.seen if path == PODS}


async def test_each_node_starts_a_pod_that_is_deleted_again(world, examine, created):
    (line,) = await examine("guard", guard=True)
    assert line.startswith("ok guard: the guard (init) starts on 2 nodes: gpu-1, gpu-2, within")
    assert sorted(each["spec"]["nodeName"] for each in created) == ["gpu-1", "gpu-2"]
    assert not left(world)


@pytest.mark.parametrize("mount", ["init", "image"])
async def test_the_pod_gets_the_guard_as_a_training_does(world, examine, created, mount):
    world.configure(f"guard: {{inject: never, mount: {mount}, image: {IMAGE}}}")
    await examine("guard", guard=True)
    spec = created[0]["spec"]
    plain = {**spec, "containers": [{**spec["containers"][0]}]}
    for member in ("volumes", "initContainers"):
        plain.pop(member, None)
    for member in ("volumeMounts", "env"):
        plain["containers"][0].pop(member)
    jobset = {"spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": plain}}}}]}}
    changes, place = Changes(jobset), pods.place(jobset, ("spec", "replicatedJobs", 0), 0)
    guard_additions.equip(place, changes, Guard("open", mount, IMAGE), "report")
    assert changes.get(*place.pod_path) == spec


def status(name, how, reason, message):
    return {"name": name, "state": {how: {"reason": reason, "message": message}}}


REASONS = {
    "not within 0 s; container muster-guard: ImagePullBackOff no such image": {
        "initContainerStatuses": [status("muster-guard", "waiting", "ImagePullBackOff", "no such image")]
    },
    "container node: Error Python loaded None": {
        "phase": "Failed",
        "containerStatuses": [status("node", "terminated", "Error", "Python loaded None")],
    },
    "Pod was rejected: no space": {"phase": "Failed", "message": "Pod was rejected: no space"},
    "volume muster-guard: not supported": {
        "conditions": [{"type": "Ready", "status": "False", "message": "volume muster-guard: not supported"}]
    },
    "the kubelet does not say why": {},
}


@pytest.mark.parametrize(("told", "status"), REASONS.items(), ids=list(REASONS))
async def test_a_node_where_the_guard_does_not_start_is_an_error_with_the_reason(world, examine, told, status):
    world.started = lambda pod: {"phase": "Succeeded"} if pod["spec"]["nodeName"] == "gpu-2" else status
    bad, good = await examine("guard", guard=True, guard_deadline=0)
    assert bad.startswith("error guard: the guard does not start on node gpu-1 in namespace default: ")
    assert told in bad
    assert "leave guard.inject at never" in bad
    assert good.startswith("ok guard: the guard (init) starts on node gpu-2")
    assert not left(world)


async def test_a_pod_that_is_refused_is_told_once_for_all_nodes(world, examine):
    def refuse(_pod):
        raise RefusedError(403, 'violates PodSecurity "restricted:latest"')

    world.started = refuse
    (line,) = await examine("guard", guard=True)
    assert line.startswith("error guard: the guard does not start on 2 nodes: gpu-1, gpu-2 in namespace default")
    assert "violates PodSecurity" in line


async def test_nodes_on_which_no_training_runs_are_left_out(world, examine, created):
    control = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    gpus = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    world.objects[worlds.NODES]["items"] = [
        worlds.node("a", taints=[control]),
        worlds.node("b", unschedulable=True),
        worlds.node("c", ready="Unknown"),
        worlds.node("d", taints=[gpus]),
    ]
    await examine("guard", guard=True)
    assert [each["spec"]["nodeName"] for each in created] == ["d"]


async def test_another_image_than_that_of_the_deployment_is_a_warning(world, examine):
    world.configure("guard: {inject: open, image: mirror.example/muster:0.0.9}")
    lines = await examine("guard", guard=True)
    assert any(line.startswith("warning guard: guard.image is mirror.example/muster:0.0.9") for line in lines)


async def test_whoever_may_not_create_pods_is_told_which_right_is_missing(world, examine, created):
    world.forbidden = {"create pods"}
    (line,) = await examine("guard", guard=True)
    assert line.startswith("unknown guard: was not checked: you may not create pods in default")
    assert not created


def test_the_command_has_the_trial_as_an_option(world, doctor, created):
    code, out, _ = doctor("--guard", "-o", "json")
    (found,) = [each for each in json.loads(out)["findings"] if each["check"] == "guard"]
    assert (code, found["severity"], found["figures"]["nodes"]) == (0, "ok", 2.0)
    assert len(created) == 2
    assert not left(world)
