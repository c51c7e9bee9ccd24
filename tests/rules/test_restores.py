"""Rule 4: on UPDATE what Muster replaced at CREATE stays as it was stored, and everything else is the user's."""

from __future__ import annotations

import copy

import pytest

from muster.webhook.admission.policies import Mode, Policy
from tests.support import admissions, jobs, merges, plugins, reapplies


@pytest.fixture(params=reapplies.EVERY.values(), ids=reapplies.EVERY)
def file(request):
    """What the user wrote."""
    return copy.deepcopy(request.param)


@pytest.fixture
def old(file):
    """What Muster made of it, stored."""
    return reapplies.stored(file, jobs.make_runtime())


@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
def test_sending_the_file_again_gives_exactly_what_is_stored(file, old, way):
    assert reapplies.APPLIED in old["metadata"]["annotations"]
    assert reapplies.updated(old, way(old, file)) == old


def test_what_is_stored_comes_back_as_it_is(old):
    assert reapplies.updated(old, copy.deepcopy(old)) == old


@pytest.mark.parametrize("mode", Mode)
def test_every_mode_restores(file, old, mode):
    assert reapplies.updated(old, merges.replace(old, file), policy=Policy(mode=mode)) == old


def test_an_update_asks_no_strategy_and_reads_no_cluster(file, old):
    def asked(*_):
        raise AssertionError("asked")

    methods = dict.fromkeys(("enforce_command", "enforce_rendezvous", "enforce_claims", "validate"), asked)

    class Silent:
        def get(self, ref):
            raise AssertionError(f"read {ref}")

    policy = admissions.policy_with(plugins.make_strategy("trl", "2", **methods))
    response = reapplies.updated(old, merges.replace(old, file), policy=policy, reader=Silent())
    assert response == old


EDITS = {
    "another command": ("command", ["sleep", "1"]),
    "another env": ("env", [{"name": "OTHER", "value": "1"}]),
    "other args": ("args", ["--other"]),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
def test_a_real_edit_is_left_as_it_is_so_that_the_api_says_no(file, old, way, edit):
    member, value = edit
    target = file["spec"].setdefault("trainer", {}) if file["kind"] == "TrainJob" else jobs.container_of(file)
    target[member] = value
    new = reapplies.updated(old, way(old, file))
    target = new["spec"]["trainer"] if new["kind"] == "TrainJob" else jobs.container_of(new)
    if member == "env":
        assert value[0] in target["env"]
    else:
        assert target[member] == value
    assert new["spec"] != old["spec"]


def edit_pods(document, member, value):
    spec = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    spec[member] = value


UNRELATED = {
    "suspend": lambda d: d["spec"].update(suspend=True),
    "a label": lambda d: d["metadata"].setdefault("labels", {}).update(team="b"),
    "an annotation": lambda d: d["metadata"].setdefault("annotations", {}).update(note="x"),
    "ttl": lambda d: d["spec"].update(ttlSecondsAfterFinished=5),
}
ON_PODS = {
    "nodeSelector": {"flavor": "h200"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
}


@pytest.mark.parametrize("edit", UNRELATED.values(), ids=UNRELATED)
@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
def test_unrelated_edits_go_through_and_stay_beside_what_was_restored(file, old, way, edit):
    wanted = copy.deepcopy(old)
    edit(file)
    edit(wanted)
    assert reapplies.updated(old, way(old, file)) == wanted


@pytest.mark.parametrize(("member", "value"), ON_PODS.items())
@pytest.mark.parametrize("name", reapplies.JOBSETS)
def test_placement_by_a_queue_goes_through(name, member, value):
    file = reapplies.JOBSETS[name]
    old = reapplies.stored(file)
    incoming, wanted = merges.replace(old, file), copy.deepcopy(old)
    edit_pods(incoming, member, value)
    edit_pods(wanted, member, value)
    assert reapplies.updated(old, incoming) == wanted


def test_the_order_of_the_env_is_kept_exactly():
    file = reapplies.JOBSETS["a torchrun of its own"]
    old = reapplies.stored(file)
    names = [entry["name"] for entry in jobs.container_of(reapplies.updated(old, merges.replace(old, file)))["env"]]
    assert names == [entry["name"] for entry in jobs.container_of(old)["env"]]
    assert names[:2] == ["Z", "A"]
    assert len(names) > 6


def test_entries_are_found_in_a_file_that_lists_its_containers_in_another_order():
    file = copy.deepcopy(reapplies.JOBSETS["a torchrun of its own"])
    containers = file["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "sidecar", "image": "s", "env": [{"name": "S", "value": "1"}]})
    old = reapplies.stored(file)
    incoming = merges.replace(old, file)
    incoming["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"].reverse()
    new = reapplies.updated(old, incoming)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "containers"
    ]
    by_name = {container["name"]: container for container in new}
    assert by_name["server"] == jobs.container_of(old)
    assert by_name["sidecar"] == containers[1]


def test_a_value_under_a_moved_parent_is_put_where_the_parent_is_now():
    old = reapplies.with_memory(
        jobs.make_jobset(framework=None),
        {"spec.replicatedJobs[server].template.spec.template.spec.containers[server].livenessProbe.httpGet": "-"},
    )
    jobs.container_of(old)["livenessProbe"] = {"httpGet": {"port": 8000}}
    first = copy.deepcopy(old["spec"]["replicatedJobs"][0])
    old["spec"]["replicatedJobs"].insert(0, {**first, "name": "other"})
    incoming = copy.deepcopy(old)
    incoming["spec"]["replicatedJobs"].reverse()
    jobs.container_of(incoming)["livenessProbe"] = {}
    new = reapplies.updated(old, incoming)
    assert jobs.container_of(new)["livenessProbe"] == {"httpGet": {"port": 8000}}
    assert new["spec"]["replicatedJobs"][1] == old["spec"]["replicatedJobs"][0]


@pytest.mark.parametrize("missing", [("replicatedJobs",), ("replicatedJobs", 0, "template"), ()])
def test_what_has_no_parent_any_more_is_not_put_back(missing):
    old = reapplies.stored(reapplies.JOBSETS["a server with features"])
    incoming = copy.deepcopy(old)
    node, path = incoming, ("spec", *missing)
    for part in path[:-1]:
        node = node[part]
    del node[path[-1]]
    assert reapplies.updated(old, incoming) == incoming


def test_a_list_that_the_file_has_no_more_is_an_edit():
    old = reapplies.stored(reapplies.JOBSETS["a torchrun of its own"])
    incoming = copy.deepcopy(old)
    del jobs.container_of(incoming)["env"]
    assert reapplies.updated(old, incoming) == incoming


def test_a_removed_trainer_section_is_not_made_up_again():
    file = reapplies.TRAINJOBS["a pinned process count"]
    old = reapplies.stored(file, jobs.make_runtime())
    incoming = merges.replace(old, file)
    del incoming["spec"]["trainer"]
    assert "trainer" not in reapplies.updated(old, incoming)["spec"]
