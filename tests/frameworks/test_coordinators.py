"""The coordinator: the DNS name of the pod at which all ranks meet, or a word why there can be none."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from muster.strategies.launches import coordinators
from tests.frameworks.builders import job_of, jobset, jobset_of, replicated_job, runtime, trainjob

NODE = {"name": "node"}
PET_PORT = {"env": [{"name": "PET_MASTER_PORT", "value": "1234"}]}
OWN_PORT = {"env": [{"name": "MASTER_PORT", "value": "1234"}]}
ODD_PORT = {"env": [{"name": "MASTER_PORT", "value": "$(PORT)"}]}


def endpoint(document, governing=None, **more):
    return coordinators.find_coordinator(job_of(document, governing, **more)).endpoint


JOBSETS = {
    "pod 0 of the training job": (jobset(replicated_job("node", NODE)), "set-node-0-0.set:29500"),
    "a job of another name": (jobset(replicated_job("trainer", NODE)), "set-trainer-0-0.set:29500"),
    "a subdomain": (jobset(replicated_job("node", NODE), network={"subdomain": "net"}), "set-node-0-0.net:29500"),
    "its own coordinator": (
        jobset(replicated_job("node", NODE), coordinator={"replicatedJob": "lead", "jobIndex": 1, "podIndex": 2}),
        "set-lead-1-2.set:29500",
    ),
    "its own coordinator with defaults": (
        jobset(replicated_job("node", NODE), coordinator={"replicatedJob": "lead"}),
        "set-lead-0-0.set:29500",
    ),
    "Trainer's port": (jobset(replicated_job("node", NODE | PET_PORT)), "set-node-0-0.set:1234"),
    "the program's port": (jobset(replicated_job("node", NODE | OWN_PORT)), "set-node-0-0.set:1234"),
    "a port that only the pod knows": (jobset(replicated_job("node", NODE | ODD_PORT)), "set-node-0-0.set:29500"),
    "one pod without DNS names": (
        jobset(replicated_job("node", NODE), network={"enableDNSHostnames": False}),
        "localhost:29500",
    ),
    "several pods without DNS names": (
        jobset(replicated_job("node", NODE, parallelism=2), network={"enableDNSHostnames": False}),
        "set-node-0-0.set:29500",
    ),
    "one pod without an index": (
        jobset(replicated_job("node", NODE, completionMode="NonIndexed")),
        "localhost:29500",
    ),
}


@pytest.mark.parametrize(("document", "wanted"), JOBSETS.values(), ids=JOBSETS)
def test_ranks_of_a_jobset_meet_at(document, wanted):
    assert endpoint(document) == wanted


def test_a_trainjob_meets_where_its_jobset_will():
    governing, document = runtime(network={"subdomain": "net"}, job_name="trainer"), trainjob({})
    made = jobset_of(document, governing)
    assert endpoint(document, governing) == endpoint(made, governing, owner=document) == "job-trainer-0-0.net:29500"


def test_a_name_that_is_still_to_be_generated_is_no_coordinator():
    assert coordinators.find_coordinator(job_of(trainjob({}, name=None), runtime())) is None
    assert coordinators.find_coordinator(job_of(trainjob({}))) is None


def messages(document, governing=None, nodes=1):
    found = coordinators.validate(job_of(document, governing), nodes)
    return [(each.severity, each.field, each.message) for each in found]


def test_a_good_name_is_not_talked_about():
    assert messages(trainjob({}), runtime(), nodes=2) == []
    assert messages(trainjob({}, name=None), runtime(), nodes=2) == []
    assert messages(jobset(replicated_job("node", NODE, parallelism=2)), nodes=2) == []


@pytest.mark.parametrize("name", ["1st", "a.b", "Upper", "a_b", "end-", "-a", "é"])
def test_a_name_that_dns_cannot_hold_is_refused(name):
    ((severity, field, message),) = messages(trainjob({}, name=name), runtime())
    assert (severity, field) == (Severity.ERROR, "metadata.name")
    assert "DNS" in message


def test_a_missing_name_is_refused():
    document = trainjob({})
    document["metadata"] = {}
    assert [found[:2] for found in messages(document, runtime())] == [(Severity.ERROR, "metadata.name")]


LONGEST = {
    "one node": (63 - len("-node-0-0-abcde"), 1, ()),
    "eleven nodes": (63 - len("-node-0-10-abcde"), 11, ()),
    "an initializer with a longer name": (
        63 - len("-dataset-initializer-0-0-abcde"),
        11,
        ("dataset-initializer", "model-initializer"),
    ),
}


@pytest.mark.parametrize(("length", "nodes", "initializers"), LONGEST.values(), ids=LONGEST)
def test_the_longest_name_that_jobset_takes_passes_and_one_more_letter_does_not(length, nodes, initializers):
    governing = runtime(initializers=initializers)
    assert messages(trainjob({}, name="x" * length), governing, nodes) == []
    ((severity, field, message),) = messages(trainjob({}, name="x" * (length + 1)), governing, nodes)
    assert (severity, field) == (Severity.ERROR, "metadata.name")
    assert "is 1 characters too long" in message
    assert (initializers[0] if initializers else "node") in message


def test_a_long_prefix_of_a_generated_name_is_cut_as_the_api_server_cuts_it():
    document = trainjob({}, name=None)
    document["metadata"]["generateName"] = "x" * 100
    ((_, _, message),) = messages(document, runtime())
    assert f"is {63 + len('-node-0-0-abcde') - 63} characters too long" in message


def test_the_letters_that_the_api_server_adds_to_a_generated_name_count():
    document = trainjob({}, name=None)
    room = 63 - len("xxxxx-node-0-0-abcde")
    document["metadata"]["generateName"] = "x" * room
    assert messages(document, runtime()) == []
    document["metadata"]["generateName"] = "x" * (room + 1)
    ((_, field, _),) = messages(document, runtime())
    assert field == "metadata.generateName"


def test_a_jobset_of_several_jobs_counts_jobs_and_pods():
    fitting = "x" * (63 - len("-node-10-9-abcde"))
    job = replicated_job("node", NODE, replicas=11, parallelism=10, completions=10)
    assert messages(jobset(job, name=fitting), nodes=110) == []
    assert len(messages(jobset(job, name=fitting + "x"), nodes=110)) == 1


@pytest.mark.parametrize(
    ("network", "severity", "word"),
    [
        ({"enableDNSHostnames": False}, Severity.ERROR, "never resolve"),
        ({"publishNotReadyAddresses": False}, Severity.WARNING, "only when they are ready"),
    ],
    ids=["names that never resolve are refused", "names that resolve late are warned of"],
)
def test_a_network_in_which_ranks_cannot_meet(network, severity, word):
    for document, governing, field in (
        (trainjob({}), runtime(network=network), "spec.runtimeRef.name"),
        (
            jobset(replicated_job("node", NODE, parallelism=2), network=network),
            None,
            f"spec.network.{next(iter(network))}",
        ),
    ):
        ((level, place, message),) = messages(document, governing, nodes=2)
        assert (level, place) == (severity, field)
        assert word in " ".join(message.split())
        assert messages(document, governing, nodes=1) == []


COORDINATORS = {
    "pod 0 of the training job": ({"replicatedJob": "node"}, None, False),
    "another pod of it under c10d": ({"replicatedJob": "node", "podIndex": 1}, "c10d", False),
    "another pod of it": ({"replicatedJob": "node", "podIndex": 1}, None, True),
    "another job under c10d": ({"replicatedJob": "lead"}, "c10d", True),
}


@pytest.mark.parametrize(("coordinator", "kind", "warned"), COORDINATORS.values(), ids=COORDINATORS)
def test_a_coordinator_where_nobody_of_the_ranks_listens_is_warned_of(coordinator, kind, warned):
    document = jobset(
        replicated_job("node", NODE, parallelism=2),
        coordinator=coordinator,
        annotations={"muster.dev/rendezvous": kind} if kind else None,
    )
    found = messages(document, nodes=2)
    assert [(severity, field) for severity, field, _ in found] == [(Severity.WARNING, "spec.coordinator")] * warned
