"""What the nodes that are known say about a role's pods: too large for all of them, or kept off by their taints."""

from __future__ import annotations

import pytest

from muster.strategies.documents import model
from muster.strategies.platform import placements
from muster.webhook.cluster import kinds
from tests.roles import places
from tests.support import jobs

POD = "spec.replicatedJobs[server].template.spec.template.spec"
MEMORY = f"{POD}.containers[server].resources.requests.memory"
TAINT = {"key": "team", "value": "b", "effect": "NoSchedule"}


def asking(memory, **more):
    return places.make_sampler(container={"resources": {"requests": {"memory": memory}}}, **more)


def test_a_request_that_no_node_of_the_role_can_meet_is_found_with_the_largest_that_there_is():
    nodes = [places.make_node("a"), places.make_node("b", memory="32Gi")]
    assert places.said(asking("64Gi"), *nodes) == [("warning", MEMORY, "roles/memory")]
    assert "'64Gi': none of the 2 nodes of role sampler has more than 48Gi for a whole pod;" in str(
        places.messages(asking("64Gi"), *nodes)
    )


@pytest.mark.parametrize("memory", ["16Gi", "48Gi", 48 * 1024**3])
def test_a_request_that_one_node_can_meet_is_fine(memory):
    assert places.said(asking(memory), places.make_node("a"), places.make_node("b", memory="1Gi")) == []


def test_large_nodes_of_others_do_not_count():
    large = places.make_node("large", labels={"pool": "training"}, memory="1Ti")
    assert places.said(asking("64Gi"), places.make_node(), large) == [("warning", MEMORY, "roles/memory")]


@pytest.mark.parametrize("nodes", [[], [places.make_node(labels={"pool": "cpu"}, memory="1Gi")]])
def test_where_no_node_of_the_role_is_known_nothing_is_said(nodes):
    assert places.said(asking("64Gi"), *nodes) == []


def test_a_node_that_does_not_say_its_memory_may_have_enough():
    assert places.said(asking("64Gi"), places.make_node("a"), places.make_node("b", memory=None)) == []


def test_all_containers_of_a_pod_count():
    jobset = asking("30Gi")
    spec = places.pod_of(jobset)["spec"]
    spec["containers"].append({"name": "cache", "image": "i", "resources": {"limits": {"memory": "30Gi"}}})
    assert places.said(jobset, places.make_node()) == [("warning", MEMORY, "roles/memory")]


def test_the_memory_of_a_trainjob_is_judged_when_it_is_applied():
    node = places.make_node(labels={"pool": "training"}, taints=[{**places.TAINTED, "operator": None}])
    trainjob = jobs.make_trainjob(
        metadata={"labels": {places.ROLE: "trainer"}}, resourcesPerNode={"requests": {"memory": "64Gi"}}
    )
    runtime = jobs.make_runtime(container={"resources": {"requests": {"memory": "1Gi"}}})
    assert places.said(trainjob, runtime, node) == [("warning", "spec.runtimeRef.name", "roles/memory")]


def test_what_a_trainjob_writes_over_its_container_leaves_the_others_as_they_are():
    node = places.make_node(labels={"pool": "training"}, taints=[{**places.TAINTED, "operator": None}])
    trainjob = jobs.make_trainjob(
        metadata={"labels": {places.ROLE: "trainer"}}, resourcesPerNode={"requests": {"memory": "24Gi"}}
    )
    runtime = jobs.make_runtime()
    assert places.said(trainjob, runtime, node) == []
    cache = {"name": "cache", "image": "i", "resources": {"requests": {"memory": "30Gi"}}}
    runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"] += [
        cache
    ]
    assert places.said(trainjob, runtime, node) == [("warning", "spec.runtimeRef.name", "roles/memory")]


def test_taints_that_the_pods_do_not_tolerate_on_every_node_are_found():
    jobset = places.make_sampler()
    assert places.said(jobset, places.make_node(taints=[TAINT])) == [
        ("warning", f"{POD}.tolerations", "roles/tolerations")
    ]
    assert "the pods tolerate the taints of none of the 1 nodes of role sampler, such as team=b:NoSchedule" in str(
        places.messages(jobset, places.make_node(taints=[TAINT]))
    )
    assert places.said(jobset, places.make_node(taints=[TAINT]), places.make_node("open")) == []


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "dedicated", "value": "sampler", "effect": "NoSchedule"},
        {"key": "mine", "value": "x", "effect": "NoSchedule"},
        {"key": "team", "value": "b", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ],
    ids=["the role's", "the user's own", "a preference", "a passing state"],
)
def test_taints_that_keep_nobody_off_are_fine(taint):
    jobset = places.make_sampler(pod={"tolerations": [{"key": "mine", "operator": "Exists"}]})
    assert places.said(jobset, places.make_node(taints=[taint])) == []


def test_of_a_node_only_what_placement_needs_is_kept():
    noisy = places.make_node(taints=[TAINT])
    noisy["metadata"] |= {"annotations": {"a": "b"}, "managedFields": [{}]}
    noisy["spec"] |= {"podCIDR": "10.0.0.0/24", "providerID": "x"}
    noisy["status"] |= {"images": [{"names": ["i"]}], "conditions": [{}], "capacity": {"memory": "50Gi"}}
    kept = {**places.make_node(taints=[TAINT]), "status": {"allocatable": {"memory": "48Gi"}}}
    kind = kinds.KINDS["Node"]
    assert kind.trim(noisy) == kept
    assert kind.trim(kept) == kept
    assert kind.path(name="n1") == "/api/v1/nodes/n1"


def test_a_node_is_read_as_taints_and_bytes():
    node = placements.node(places.make_node(taints=[TAINT]))
    assert (node.taints, node.memory) == ((model.Taint(**TAINT),), 48 * 1024**3)


@pytest.mark.parametrize(("part", "member"), [("spec", "taints"), ("metadata", "labels"), ("status", "allocatable")])
def test_a_node_whose_fields_are_no_kubernetes_is_passed_over(part, member):
    bad = places.make_node("bad", memory="1Gi")
    bad[part][member] = "none"
    assert places.said(asking("64Gi"), bad) == []


class Reader:
    """Knows no object by name, and answers with `nodes` when it is asked for all of them."""

    whole = True

    def __init__(self, nodes):
        self.nodes = nodes

    def get(self, _):
        return None

    def every(self, _, labels):
        assert labels == places.ROLES["sampler"].node_labels
        return self.nodes()


def test_a_reader_that_has_not_all_nodes_says_nothing_against_a_job():
    assert places.said(asking("64Gi"), reader=Reader(lambda: None)) == []


def test_no_node_is_read_for_a_job_without_a_role():
    def refused():
        raise AssertionError("nodes were read")

    assert places.said(places.make_sampler(None), reader=Reader(refused)) == []


def test_no_more_nodes_are_read_than_are_needed():
    def nodes():
        yield places.make_node("fits")
        raise AssertionError("one that fits is enough")

    assert places.said(asking("16Gi"), reader=Reader(nodes)) == []
