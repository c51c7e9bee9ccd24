"""What Muster added to lists that stay mutable comes back when a file is sent again; nothing else does."""

from __future__ import annotations

import copy
import json

import pytest
from msgspec import structs

from muster.strategies.changes import restores
from muster.strategies.platform.profiles import Profile
from tests.roles import places
from tests.support import jobs, reapplies

GATE = {"name": "muster.dev/seat"}
QUEUES_GATE = {"name": "kueue.x-k8s.io/admission"}
PROFILES = {"session": Profile("session", "gpu.example.com", sharing="shared", max_sessions=4)}
POLICY = structs.replace(places.policy(profile="session"), profiles=PROFILES)
SPEC = "spec.replicatedJobs[server].template.spec.template.spec"


def make_file():
    file = places.make_sampler(pod={"tolerations": [{"key": "a", "operator": "Exists"}]})
    file["spec"]["suspend"] = True
    return file


def kept_of(document):
    return json.loads(document["metadata"]["annotations"][reapplies.APPLIED]).get("kept", {})


@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
def test_a_suspended_job_keeps_its_seat_gate_and_its_tolerations(way):
    file = make_file()
    old = places.placed(file, places.CLASS, policy=POLICY)
    assert places.pod_of(old)["spec"]["schedulingGates"] == [GATE]
    assert set(kept_of(old)) == {f"{SPEC}.schedulingGates", f"{SPEC}.tolerations"}
    assert reapplies.updated(old, way(old, file)) == old


def test_the_gate_of_a_queue_goes_when_the_queue_takes_it_away():
    file = make_file()
    places.pod_of(file)["spec"]["schedulingGates"] = [QUEUES_GATE]
    old = places.placed(file, places.CLASS, policy=POLICY)
    assert places.pod_of(old)["spec"]["schedulingGates"] == [QUEUES_GATE, GATE]
    new = copy.deepcopy(old)
    places.pod_of(new)["spec"]["schedulingGates"] = [GATE]
    assert reapplies.updated(old, new) == new


def test_a_memory_that_names_the_gate_of_a_queue_does_not_keep_it():
    old = places.placed(make_file(), places.CLASS, policy=POLICY)
    places.pod_of(old)["spec"]["schedulingGates"].append(QUEUES_GATE)
    note = json.loads(old["metadata"]["annotations"][reapplies.APPLIED])
    note["kept"][f"{SPEC}.schedulingGates"] += [restores._hash(QUEUES_GATE)]
    old["metadata"]["annotations"][reapplies.APPLIED] = json.dumps(note)
    new = copy.deepcopy(old)
    places.pod_of(new)["spec"]["schedulingGates"] = []
    assert places.pod_of(reapplies.updated(old, new))["spec"]["schedulingGates"] == [GATE]


def test_a_memory_that_names_tolerations_of_a_queues_patch_does_not_keep_them():
    pod = {"spec": {"tolerations": [places.OPEN]}}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    patch = {"manager": "a.example/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    field = "spec.runtimePatches[a.example/b].trainingRuntimeSpec.template.spec.replicatedJobs[node]"
    note = {"fields": {}, "kept": {f"{field}.template.spec.template.spec.tolerations": [restores._hash(places.OPEN)]}}
    old = jobs.make_trainjob(metadata={"annotations": {reapplies.APPLIED: json.dumps(note)}})
    old["spec"]["runtimePatches"] = [patch]
    new = copy.deepcopy(old)
    new["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0] = {
        "name": "node",
        "template": {"spec": {"template": {"spec": {"tolerations": []}}}},
    }
    assert reapplies.updated(old, new) == new


def test_labels_that_are_not_all_musters_own_are_the_updates_business():
    file = make_file()
    places.pod_of(file)["metadata"] = {"annotations": {"a": "b"}}
    old = places.placed(file)
    assert reapplies.updated(old, copy.deepcopy(file) | {"metadata": old["metadata"]}) == old
    places.pod_of(old)["metadata"]["labels"]["kueue.x-k8s.io/podset"] = "node"
    new = reapplies.updated(old, copy.deepcopy(file) | {"metadata": old["metadata"]})
    assert places.pod_of(new)["metadata"] == {"annotations": {"a": "b"}}


@pytest.mark.parametrize("labels", [None, {"team": "a"}], ids=["no labels", "labels of the user's"])
@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
def test_the_roles_label_comes_back_where_the_file_has_no_metadata(way, labels):
    # JobSet's webhook, called at CREATE only and before Muster, gives each template metadata.
    file = make_file()
    sent = copy.deepcopy(file)
    places.pod_of(sent)["metadata"] = {"labels": labels} if labels else {}
    old = places.placed(sent)
    new = reapplies.updated(old, way(old, file))
    assert places.pod_of(new)["metadata"]["labels"][places.ROLE] == "sampler"


def test_metadata_that_is_none_is_left_to_the_api_server():
    file = make_file()
    places.pod_of(file)["metadata"] = {}
    old = places.placed(file)
    for broken in ("words", ["words"], {"labels": "words"}):
        sent = copy.deepcopy(old)
        places.pod_of(sent)["metadata"] = broken
        assert places.pod_of(reapplies.updated(old, sent))["metadata"] == broken


def test_a_second_pass_remembers_the_first():
    once = places.placed(make_file(), policy=places.policy(tolerations=()))
    assert kept_of(once) == {}
    twice = places.placed(once)
    more = {"key": "b", "operator": "Exists"}
    thrice = places.placed(twice, policy=places.policy(tolerations=(places.OPEN, more)))
    (hashes,) = kept_of(thrice).values()
    assert hashes == [restores._hash(places.OPEN), restores._hash(more)]
