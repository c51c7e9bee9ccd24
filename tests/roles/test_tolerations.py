"""A role's pods tolerate the taints of the role's nodes, and go on doing so whoever writes the list again."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.documents import decoding
from muster.strategies.documents.model import Taint, Toleration
from muster.strategies.roles import role_additions
from tests.roles import places
from tests.support import admissions, jobs, limits, reapplies, upstream
from tests.support.worlds import World

SPEC = "spec.replicatedJobs[server].template.spec.template.spec"
OWN = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
QUEUES = {"key": "spot", "operator": "Exists"}
TRAINER = jobs.make_trainjob(metadata={"labels": {places.ROLE: "trainer"}}, command=["sleep", "1"])


def tolerations_of(document):
    return places.pod_of(document)["spec"].get("tolerations")


def test_what_is_missing_is_added_behind_the_users_own():
    assert tolerations_of(places.placed(places.make_sampler())) == [places.OPEN]
    assert tolerations_of(places.placed(places.make_sampler(pod={"tolerations": [OWN]}))) == [OWN, places.OPEN]


@pytest.mark.parametrize(
    "own",
    [
        {"operator": "Exists"},
        {"key": "dedicated", "operator": "Exists"},
        {"key": "dedicated", "value": "sampler"},
        {"key": "dedicated", "value": "sampler", "effect": "NoSchedule"},
    ],
)
def test_what_the_user_tolerates_already_is_not_added(own):
    assert tolerations_of(places.placed(places.make_sampler(pod={"tolerations": [own]}))) == [own]


@pytest.mark.parametrize(
    "own",
    [
        {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        {"key": "dedicated", "value": "trainer", "effect": "NoExecute"},
        {"key": "other", "operator": "Exists"},
        {"key": "dedicated", "operator": "Gt", "value": "sampler"},
    ],
    ids=["another effect", "for a while only", "another value", "another key", "another operator"],
)
def test_what_the_user_tolerates_only_in_part_is_added(own):
    wanted = {"key": "dedicated", "operator": "Equal", "value": "sampler", "effect": "NoExecute"}
    jobset, policy = places.make_sampler(pod={"tolerations": [own]}), places.policy(tolerations=(wanted,))
    assert tolerations_of(places.placed(jobset, policy=policy)) == [own, wanted]


def test_to_tolerate_the_other_roles_nodes_is_a_warning_and_the_own_one_is_added():
    jobset = places.make_sampler(pod={"tolerations": [places.TAINTED]})
    assert tolerations_of(places.placed(jobset)) == [places.TAINTED, places.OPEN]
    assert places.said(jobset) == [("warning", f"{SPEC}.tolerations[0]", "roles/tolerations")]


def test_of_a_taint_with_several_values_each_may_be_tolerated():
    both = {**places.OPEN, "value": "both"}
    policy = places.policy(tolerations=(places.OPEN, both))
    assert places.said(places.placed(places.make_sampler(), policy=policy), policy=policy) == []
    assert places.said(places.make_sampler(pod={"tolerations": [both]}), policy=policy) == []
    (message,) = places.messages(places.make_sampler(pod={"tolerations": [places.TAINTED]}), policy=policy)
    assert "whose value is 'sampler' or 'both'; the role's toleration is added" in message


some_tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["a", "b", ""]),
        "operator": st.sampled_from(["Exists", "Equal"]),
        "value": st.sampled_from(["1", "2", ""]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute", ""]),
        "tolerationSeconds": st.sampled_from([0, 30]),
    },
)
taints = st.fixed_dictionaries(
    {"key": st.sampled_from(["a", "b"]), "effect": st.sampled_from(["NoSchedule", "NoExecute"])},
    optional={"value": st.sampled_from(["1", "2"])},
)


@limits.MANY
@given(some_tolerations, some_tolerations, taints)
def test_what_covers_another_toleration_tolerates_all_that_it_does(found, wanted, taint):
    found, wanted = (decoding.read(each, Toleration) for each in (found, wanted))
    taint = decoding.read(taint, Taint)
    if role_additions.covers(found, wanted) and role_additions.tolerates([wanted], taint):
        assert role_additions.tolerates([found], taint)


def live(runtime, trainjob=TRAINER, flavor=None):
    """A queued job that is resumed, evicted and resumed again; yields the JobSet after each step."""
    world = World(runtime, policy=places.POLICY)
    world.create(upstream.suspend(trainjob))
    world.reconcile()
    yield world.jobset
    for turn in (lambda job: job, upstream.start, upstream.stop, upstream.start):
        sent = turn(copy.deepcopy(world.trainjob))
        if flavor and turn is upstream.start:
            pod = sent["spec"]["runtimePatches"][-1]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
            pod["template"]["spec"]["template"]["spec"]["tolerations"] = [flavor]
        world.update(sent)
        world.reconcile()
        yield world.jobset


@pytest.mark.parametrize("own", [None, [OWN]], ids=["none of the runtime's", "one of the runtime's"])
def test_trainers_applies_do_not_take_it_away(own):
    runtime = jobs.make_runtime(pod={"tolerations": own} if own else {})
    for jobset in live(runtime):
        assert tolerations_of(jobset) == [*(own or []), places.TAINTED]


def test_a_queue_that_writes_the_list_does_not_take_it_away():
    lists = [tolerations_of(jobset) for jobset in live(jobs.make_runtime(pod={"tolerations": [OWN]}), flavor=QUEUES)]
    assert lists[-1] == [QUEUES, places.TAINTED]
    assert lists[-2] == [OWN, places.TAINTED]


@pytest.mark.parametrize("way", reapplies.WAYS.values(), ids=reapplies.WAYS)
@pytest.mark.parametrize("metadata", [None, {}, {"labels": {"app": "x"}}, {"annotations": {"a": "b"}}])
def test_sending_the_file_of_a_placed_job_again_gives_exactly_what_is_stored(way, metadata):
    file = places.make_sampler(pod={"tolerations": [OWN], "nodeSelector": {"zone": "a"}})
    if metadata is not None:
        places.pod_of(file)["metadata"] = metadata
    old = places.placed(file)
    assert reapplies.updated(old, way(old, file)) == old


@pytest.mark.parametrize(
    "kept",
    [
        [],
        "x",
        {"spec": []},
        {"": ["x"]},
        {"spec.replicatedJobs": ["x"]},
        {f"{SPEC}.tolerations": "x"},
        {f"{SPEC}.nodeSelector": ["x"]},
    ],
)
def test_a_memory_that_somebody_else_wrote_does_no_harm(kept):
    old = places.make_sampler(pod={"tolerations": [OWN], "nodeSelector": {"a": "b"}})
    note = {"strategy": "x", "version": "1", "fields": {}, "kept": kept}
    old["metadata"]["annotations"] = {reapplies.APPLIED: json.dumps(note)}
    new = copy.deepcopy(old)
    places.pod_of(new)["spec"] |= {"tolerations": [], "nodeSelector": {}}
    assert reapplies.updated(old, new) == new


def test_a_job_that_is_not_placed_remembers_nothing_of_it():
    stored = reapplies.stored(jobs.make_jobset(container={"args": ["--model=m"]}), policy=admissions.POLICY)
    assert "kept" not in json.loads(stored["metadata"]["annotations"][reapplies.APPLIED])
