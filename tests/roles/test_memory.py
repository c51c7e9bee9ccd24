"""Host memory: what the profile of a pod's devices says, where the pod asks for none itself."""

from __future__ import annotations

import pytest
from msgspec import structs

from muster.strategies.documents import decoding
from muster.strategies.documents.model import PodSpec
from muster.strategies.platform.profiles import Profile
from muster.strategies.roles import role_additions
from tests.roles import places
from tests.support import admissions, jobs

GIB = 1024**3
PROFILES = {"session": Profile("session", "gpu.example.com", memory="16Gi"), "bare": Profile("bare", "gpu.example.com")}
POLICY = structs.replace(places.policy(profile="session"), profiles=PROFILES)
ASKING = {"muster.dev/claim-profile": "session"}


def resources_of(document, container=0):
    return places.pod_of(document)["spec"]["containers"][container].get("resources") or {}


def requests_of(document, container=0, policy=POLICY):
    return resources_of(places.placed(document, policy=policy), container).get("requests")


def asked(jobset, profile="session"):
    places.pod_of(jobset)["metadata"] = {"annotations": {"muster.dev/claim-profile": profile}}
    return jobset


def test_the_profile_that_a_job_names_says_the_memory_with_a_role_or_without():
    plain = structs.replace(admissions.POLICY, profiles=PROFILES)
    assert requests_of(asked(places.make_sampler(None)), policy=plain) == {"memory": "16Gi"}


def test_the_profile_of_the_role_says_the_memory():
    jobset = places.make_sampler(container={"resources": {"requests": {"cpu": "2"}}})
    assert requests_of(jobset) == {"cpu": "2", "memory": "16Gi"}


def test_a_profile_without_memory_leaves_the_request_alone():
    assert requests_of(asked(places.make_sampler(), "bare")) is None


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_a_container_that_asks_for_some_keeps_it(part):
    jobset = places.make_sampler(container={"resources": {part: {"memory": "2Gi"}}})
    assert resources_of(places.placed(jobset, policy=POLICY))[part] == {"memory": "2Gi"}
    assert requests_of(jobset) in (None, {"memory": "2Gi"})


def test_a_pod_that_asks_for_some_as_a_whole_keeps_it():
    assert requests_of(places.make_sampler(pod={"resources": {"requests": {"memory": "2Gi"}}})) is None


def test_the_container_called_node_is_the_one_that_asks():
    jobset = places.make_sampler(pod={"containers": [{"name": "proxy"}, {"name": "node", "command": ["sleep", "1"]}]})
    assert requests_of(jobset, 0) is None
    assert requests_of(jobset, 1) == {"memory": "16Gi"}


def test_the_reason_names_the_profile_and_who_chose_it():
    changes = admissions.decide(asked(places.make_sampler()), policy=POLICY).changes
    (change,) = (change for change in changes if change.rule == "roles/memory")
    assert "profile session, asked for by" in change.reason
    assert "muster.dev/claim-profile" in change.reason


def test_what_the_profile_asks_for_is_compared_with_the_nodes():
    stored = places.placed(places.make_sampler(), policy=POLICY)
    found = places.said(stored, places.make_node(memory="8Gi"), policy=POLICY)
    assert ("warning", "roles/memory") in {(severity, rule) for severity, _, rule in found}


def test_the_profiles_memory_of_a_trainjob_is_judged_when_it_is_applied():
    node = places.make_node(labels={"pool": "training"}, memory="8Gi", taints=[])
    trainjob = jobs.make_trainjob(metadata={"labels": {places.ROLE: "trainer"}, "annotations": ASKING})
    found = places.said(trainjob, jobs.make_runtime(), node, places.CLASS, policy=POLICY)
    assert ("warning", "spec.runtimeRef.name", "roles/memory") in found


def container(memory=None, **more):
    return {"name": "x", **({"resources": {"requests": {"memory": memory}}} if memory else {}), **more}


@pytest.mark.parametrize(
    ("spec", "gib"),
    [
        ({}, 0),
        ({"containers": [container("1Gi"), container("2Gi"), container()]}, 3),
        ({"containers": [container("1Gi")], "initContainers": [container("5Gi"), container("4Gi")]}, 5),
        ({"containers": [container("1Gi")], "initContainers": [container("5Gi", restartPolicy="Always")]}, 6),
        ({"containers": [container("1Gi")], "resources": {"requests": {"memory": "7Gi"}}}, 7),
        ({"containers": [{"name": "x", "resources": {"limits": {"memory": "2Gi"}}}]}, 2),
        ({"containers": [container("nonsense")]}, 0),
    ],
)
def test_the_memory_of_a_pod_is_counted_as_the_scheduler_does(spec, gib):
    assert role_additions.request(decoding.read(spec, PodSpec)) == gib * GIB
