"""A claim that takes the place of an extended resource, and a job that lives with it."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import devices, jobs, limits, reapplies, upstream
from tests.support.worlds import World

CLASS = devices.device_class()
GPUS = {"limits": {devices.GPU: 1, "memory": "8Gi"}, "requests": {devices.GPU: 1}}


def jobset(resources, profile="quad"):
    metadata = {**devices.annotated(profile=profile), "labels": {jobs.FRAMEWORK: "torch"}}
    return jobs.make_jobset(metadata=metadata, container={"resources": resources, "command": ["torchrun", "x.py"]})


def test_limit_and_request_of_the_replaced_resource_go_together_and_nothing_else_goes():
    container = jobs.container_of(devices.stored(jobset(GPUS), CLASS))
    assert container["resources"] == {"limits": {"memory": "8Gi"}, "requests": {}, "claims": [{"name": "devices"}]}


def test_the_trainjob_and_the_runtime_keep_it_for_trainer_counts_there():
    runtime = jobs.make_runtime("torch", framework="torch", container={"resources": GPUS})
    asked = devices.annotated(profile="quad")
    trainjob = jobs.make_trainjob(runtime="torch", metadata=asked, resourcesPerNode=GPUS, command=["torchrun", "x.py"])
    stored = devices.stored(trainjob, CLASS, runtime)
    assert stored["spec"]["trainer"]["resourcesPerNode"] == GPUS
    assert stored["spec"]["trainer"]["numProcPerNode"] == 4


def test_another_vendors_resource_is_not_the_one_that_is_replaced():
    stored = devices.stored(jobset({"limits": {"amd.com/gpu": 1}}), CLASS)
    assert jobs.container_of(stored)["resources"]["limits"] == {"amd.com/gpu": 1}


@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
@pytest.mark.parametrize("amount", [1, "1"])
@pytest.mark.parametrize("profile", ["quad", "seats"])
def test_sending_the_file_again_gives_exactly_what_is_stored(way, amount, profile):
    resources = {"limits": {devices.GPU: amount}} if profile == "quad" else {}
    file = jobset(resources, profile)
    old = devices.stored(file, CLASS)
    assert reapplies.updated(old, way(old, file)) == old


def test_an_amount_is_restored_however_jobset_has_spelt_it_meanwhile():
    file = jobset({"limits": {devices.GPU: "1"}})
    old = devices.stored(file, CLASS)
    again = copy.deepcopy(old)
    jobs.container_of(again)["resources"]["limits"][devices.GPU] = 1
    assert reapplies.updated(old, again) == old


def test_another_amount_is_an_edit_and_left_for_the_api_to_refuse():
    old = devices.stored(jobset(GPUS), CLASS)
    edited = copy.deepcopy(old)
    jobs.container_of(edited)["resources"]["limits"][devices.GPU] = 8
    assert jobs.container_of(reapplies.updated(old, edited))["resources"]["limits"][devices.GPU] == 8


@pytest.mark.parametrize("gates", [None, [], [{"name": "other.example/gate"}]])
@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
def test_the_gate_of_a_seat_stays_although_a_queue_may_change_gates_of_its_own(gates, way):
    file = jobset({}, "seats")
    if gates is not None:
        devices.pod_of(file)["schedulingGates"] = gates
    old = devices.stored(file, CLASS)
    assert reapplies.updated(old, way(old, file)) == old


def test_a_gate_of_a_queue_is_taken_away_by_the_queue():
    gate = {"name": "kueue.x-k8s.io/topology"}
    file = jobset({}, "seats")
    devices.pod_of(file)["schedulingGates"] = [gate]
    old = devices.stored(file, CLASS)
    again = copy.deepcopy(old)
    devices.pod_of(again)["schedulingGates"].remove(gate)
    assert devices.pod_of(reapplies.updated(old, again))["schedulingGates"] == [{"name": "muster.dev/seat"}]


AMOUNTS = st.sampled_from([1, "1", 4, "8"])


@limits.FEW
@given(
    profile=st.sampled_from(["quad", "plain", "seats", "large"]),
    runtime_gpus=st.none() | AMOUNTS,
    job_gpus=st.none() | AMOUNTS,
    nodes=st.integers(1, 2),
    turns=st.lists(st.sampled_from(["start", "stop"]), max_size=5),
)
def test_trainers_later_applies_bring_the_limit_back_and_no_suspend_or_resume_ever_wedges(
    profile, runtime_gpus, job_gpus, nodes, turns
):
    resources = {"limits": {"memory": "8Gi", **({devices.GPU: runtime_gpus} if runtime_gpus else {})}}
    runtime = jobs.make_runtime("torch", framework="torch", container={"resources": resources})
    own = {"resourcesPerNode": {"limits": {devices.GPU: job_gpus}, "requests": {devices.GPU: job_gpus}}}
    asked = devices.annotated(profile=profile)
    trainjob = jobs.make_trainjob(
        runtime="torch", metadata=asked, command=["torchrun", "x.py"], numNodes=nodes, **(own if job_gpus else {})
    )
    # a class that maps nothing: what stays beside a claim is then a warning, and every job is let through
    world = World(runtime, policy=devices.policy(), others=(devices.device_class(extended_resource=None),))
    world.create({**trainjob, "spec": {**trainjob["spec"], "suspend": True}})
    world.reconcile()
    first = copy.deepcopy(devices.pod_of(world.jobset))
    for turn in turns:
        world.update(getattr(upstream, turn)(world.trainjob))
        world.reconcile()
        world.reconcile()
    now = devices.pod_of(world.jobset)
    assert now["containers"] == first["containers"]
    assert now["resourceClaims"] == first["resourceClaims"]
    assert now.get("schedulingGates") == first.get("schedulingGates")
    if profile == "quad":
        limits, requests = (now["containers"][0]["resources"].get(part) or {} for part in ("limits", "requests"))
        assert devices.GPU not in {**limits, **requests}
