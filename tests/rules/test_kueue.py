"""What Kueue refuses of labels and annotations, and what it does not read where it stands."""

from __future__ import annotations

import pytest

from muster.strategies.checks.jobs import check_job
from tests.frameworks.builders import job_of, jobset, replicated_job, runtime, trainjob

DOMAIN = "kueue.x-k8s.io/"
RACK = {"required-topology": "cloud/rack"}
SLICES = {"slice-required-topology": "cloud/rack"}


def part(name="node", annotations=None, **more):
    job = replicated_job(name, {"name": "node", "image": "i", "command": ["torchrun", "x.py"]}, **more)
    noted = {f"{DOMAIN}podset-{key}": value for key, value in (annotations or {}).items()}
    job["template"]["spec"]["template"]["metadata"] = {"annotations": noted}
    return job


def told(*parts, labels=None, annotations=None):
    document = jobset(*parts)
    document["metadata"]["labels"] |= {f"{DOMAIN}queue-name": "team"} if labels is None else labels
    document["metadata"]["annotations"] = annotations or {}
    found = [each for each in check_job(job_of(document)) if each.rule == "core/kueue"]
    return [(each.severity.value, each.message) for each in found]


REFUSED = {
    "two topologies": ({**RACK, "preferred-topology": "cloud/block"}, "excludes"),
    "one beside no constraint": ({**RACK, "unconstrained-topology": "true"}, "excludes"),
    "a level that is no label": ({"required-topology": "the rack"}, "key of a label"),
    "a truth that is none": ({"unconstrained-topology": "perhaps"}, "true or false"),
    "slices without a size": (SLICES, "needs"),
    "a size without slices": ({"slice-size": "2"}, "needs"),
    "a size that is no number": ({**SLICES, "slice-size": "two"}, "number of pods"),
    "a size of none": ({**SLICES, "slice-size": "0"}, "number of pods"),
    "a size above all pods": ({**SLICES, "slice-size": "5"}, "above the 4 pods"),
    "layers beside a size": ({"slice-required-topology-constraints": "[]", "slice-size": "2"}, "excludes"),
    "a group without a topology": ({"group-name": "g"}, "needs"),
    "a group of slices": ({**RACK, **SLICES, "slice-size": "2", "group-name": "g"}, "excludes"),
    "a group that is a number": ({**RACK, "group-name": "7"}, "not a number"),
    "a group of one": ({**RACK, "group-name": "g"}, "a group has two"),
}


@pytest.mark.parametrize(("annotations", "said"), REFUSED.values(), ids=REFUSED)
def test_what_kueue_refuses_is_an_error_of_a_job_in_a_queue(annotations, said):
    found = told(part(annotations=annotations, parallelism=4))
    assert any(said in message for _, message in found)
    assert {severity for severity, _ in found} == {"error"}


def test_without_a_queue_it_is_a_warning():
    assert [each for each, _ in told(part(annotations=SLICES), labels={})] == ["warning"]


TAKEN = {
    "one topology": RACK,
    "no constraint": {"unconstrained-topology": "true"},
    "slices in a block": {"preferred-topology": "cloud/block", **SLICES, "slice-size": "2"},
    "nothing": {},
}


@pytest.mark.parametrize("annotations", TAKEN.values(), ids=TAKEN)
def test_what_kueue_takes_is_silent(annotations):
    assert told(part(annotations=annotations, parallelism=4)) == []


def test_a_group_is_a_pair_of_which_one_is_one_pod_with_one_topology():
    grouped = {**RACK, "group-name": "g"}
    other = {"required-topology": "cloud/block", "group-name": "g"}
    leader, workers = part("leader", grouped), part("workers", grouped, parallelism=3)
    assert told(leader, workers) == []
    assert "2 and 3 pods" in told(part("leader", grouped, parallelism=2), workers)[0][1]
    assert "different topologies" in told(leader, part("workers", other, parallelism=3))[0][1]


def test_what_stands_at_another_place_is_read_by_nobody():
    assert "pod templates alone" in told(part(), annotations={f"{DOMAIN}podset-required-topology": "cloud/rack"})[0][1]
    assert "from a label" in told(part(), labels={}, annotations={f"{DOMAIN}queue-name": "team"})[0][1]


def test_labels_and_annotations_of_the_job_itself():
    assert "LocalQueue" in told(part(), labels={f"{DOMAIN}queue-name": "Team_A"})[0][1]
    assert "seconds" in told(part(), labels={f"{DOMAIN}max-exec-time-seconds": "0"})[0][1]
    assert told(part(), labels={f"{DOMAIN}max-exec-time-seconds": "60"}) == []
    assert "not for TrainJobs" in told(part(), annotations={f"{DOMAIN}elastic-job": "true"})[0][1]


def test_on_a_trainjob_it_is_told_where_it_was_written():
    governing, document = runtime(), trainjob({"numNodes": 4})
    document["metadata"]["labels"] = {f"{DOMAIN}queue-name": "team"}
    noted = {"annotations": {f"{DOMAIN}podset-slice-required-topology": "cloud/rack"}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"metadata": noted}}}}]}}
    patch = {"manager": "example.org/team", "trainingRuntimeSpec": {"template": template}}
    patched = {**document, "spec": {**document["spec"], "runtimePatches": [patch]}}
    (found,) = [each for each in check_job(job_of(patched, governing)) if each.rule == "core/kueue"]
    assert found.field.startswith("spec.runtimePatches[")
    governing["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = noted
    (found,) = [each for each in check_job(job_of(document, governing)) if each.rule == "core/kueue"]
    assert found.field == "spec.runtimeRef.name"
