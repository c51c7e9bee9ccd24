"""The rules of mutation, for the guard: once is enough, nothing of the user's is lost, and no update is stopped."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.injection import guarded
from tests.support import admissions, jobs, limits, merges, realistic, reapplies, upstream
from tests.support.worlds import World

policies = st.builds(guarded.policy, st.sampled_from(("open", "always")), st.sampled_from(("init", "image")))
levels = st.sampled_from((None, "off", "report", "enforce", "loud"))
containers = st.fixed_dictionaries(
    {},
    optional={
        "env": st.lists(
            st.sampled_from(
                [
                    {"name": "PYTHONPATH", "value": "/app"},
                    {"name": "PYTHONPATH", "value": ""},
                    {"name": "MUSTER_GUARD", "value": "off"},
                    {"name": "MUSTER_GUARD", "value": "report"},
                    {"name": "A", "value": "1"},
                ]
            ),
            max_size=3,
            unique_by=lambda each: each["name"],
        ),
        "volumeMounts": st.sampled_from(([], [{"name": "d", "mountPath": "/data"}])),
        "resources": st.sampled_from(({"limits": {"nvidia.com/gpu": 2, "cpu": 4}}, {})),
    },
)


@st.composite
def drawn(draw):
    """(document, cluster) as people write them, with what the guard looks at."""
    document, cluster = draw(realistic.documents())
    if document["kind"] == "JobSet":
        own = guarded.pod_of(document)["containers"][0]
        for member, value in copy.deepcopy(draw(containers)).items():
            own[member] = [*(own.get(member) or ()), *value] if isinstance(value, list) else value
    level = draw(levels)
    return document, [*cluster, guarded.namespace(level)] if level else cluster


@limits.MANY
@given(drawn(), policies)
def test_a_second_pass_adds_nothing(job, policy):
    document, cluster = job
    once = guarded.decide(document, cluster, policy).document
    assert [change.operation for change in guarded.decide(once, cluster, policy).changes] == []


@limits.MANY
@given(drawn(), policies)
def test_without_what_the_guard_added_the_job_is_as_it_would_be_without_it(job, policy):
    document, cluster = job
    plain = admissions.decide(document, *cluster)
    with_guard = guarded.decide(document, cluster, policy)
    own = [each.operation for each in with_guard.changes if not each.rule.startswith(("guard/", "core/applied"))]
    assert own == [each.operation for each in plain.changes if each.rule != "core/applied"]


@limits.SOME
@given(drawn(), policies, st.sampled_from(sorted(reapplies.WAYS)))
def test_the_same_file_sent_again_changes_nothing(job, policy, way):
    document, cluster = job
    stored = reapplies.stored(document, *cluster, policy=policy)
    sent = reapplies.WAYS[way](stored, document)
    again = reapplies.updated(stored, sent, policy=policy)
    assert again["spec"] == stored["spec"]


@pytest.mark.parametrize("own", [None, "/app"])
@pytest.mark.parametrize("mount", ["init", "image"])
def test_a_guarded_job_is_suspended_and_resumed_by_a_muster_that_offers_no_guard(own, mount):
    env = [{"name": "PYTHONPATH", "value": own}] if own else []
    pod = {"initContainers": [{"name": "fetch", "image": "x"}]}
    runtime = jobs.make_runtime("torch-distributed", framework="torch", container={"env": env}, pod=pod)
    world = World(runtime, policy=guarded.policy(mount=mount))
    trainjob = jobs.make_trainjob(runtime="torch-distributed", command=guarded.UNREAD, numNodes=2)
    world.create(upstream.suspend(trainjob))
    world.reconcile()
    made = copy.deepcopy(guarded.pod_of(world.jobset))
    assert any(each["name"] == "muster-guard" for each in made["volumes"])
    world.policy = admissions.POLICY
    for turn in ("start", "stop", "start"):
        world.update(getattr(upstream, turn)(world.trainjob))
        world.reconcile()
        assert world.jobset["spec"]["suspend"] == world.trainjob["spec"]["suspend"]
        now = guarded.pod_of(world.jobset)
        assert [now[member] for member in ("containers", "volumes")] == [
            made[member] for member in ("containers", "volumes")
        ]
        assert now.get("initContainers") == made.get("initContainers")


def test_a_webhook_that_adds_an_init_container_between_two_passes_changes_nothing():
    jobset, cluster = guarded.cluster_of(guarded.UNREAD)
    once = guarded.decide(jobset, cluster).document
    other = merges.replace(once, once)
    guarded.pod_of(other)["initContainers"].insert(0, {"name": "istio-init", "image": "x"})
    assert guarded.decide(other, cluster).verdict == "unchanged"
