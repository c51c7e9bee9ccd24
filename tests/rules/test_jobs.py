from __future__ import annotations

import copy

import pytest

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import model
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs.jobs import Job
from tests.support import jobs

KEY = "muster.dev/rendezvous"


def noted(document, value):
    out = copy.deepcopy(document)
    if value is not None:
        out["metadata"]["annotations"] = {KEY: value}
    return out


def make_job(own=None, owners=None, runtimes=None, *, kind="JobSet"):
    document = jobs.make_jobset() if kind == "JobSet" else jobs.make_trainjob()
    return Job(
        kind=kind,
        changes=Changes(noted(document, own)),
        owner=noted(jobs.make_trainjob(numNodes=3), owners),
        runtime=Runtime(noted(jobs.make_runtime(network={"subdomain": "meet"}), runtimes), "live"),
    )


@pytest.mark.parametrize(
    ("own", "owners", "runtimes", "found"),
    [
        ("a", "b", "c", ("a", "JobSet annotation")),
        (None, "b", "c", ("b", "TrainJob annotation")),
        (None, None, "c", ("c", "runtime annotation")),
        (None, None, None, None),
        (5, "b", "c", ("b", "TrainJob annotation")),
        (None, None, ["c"], None),
        ("", "b", None, ("", "JobSet annotation")),
    ],
)
def test_the_nearest_annotation_wins_and_says_where_it_stood(own, owners, runtimes, found):
    assert make_job(own, owners, runtimes).annotation(KEY) == found


def test_a_job_without_owner_and_runtime_has_no_annotation():
    assert Job(kind="TrainJob", changes=Changes({})).annotation(KEY) is None


@pytest.mark.parametrize(
    ("metadata", "name"), [({"name": "a"}, "a"), ({"generateName": "a-"}, None), ({"name": ""}, None)]
)
def test_a_name_that_the_api_server_has_yet_to_make_is_not_known(metadata, name):
    assert Job(kind="TrainJob", changes=Changes({"metadata": metadata})).name == name
    assert Job(kind="TrainJob", changes=Changes({"metadata": None})).name is None


def test_the_trainer_section_of_a_jobset_is_that_of_its_trainjob():
    assert make_job().trainer == model.Trainer(num_nodes=3)
    assert make_job(kind="TrainJob").trainer == model.Trainer()


def test_container_and_network_are_the_jobsets_own_or_those_of_the_trainjobs_runtime():
    assert make_job().container.container.name == "server"
    assert make_job().network == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert make_job(kind="TrainJob").container.container.name == "node"
    assert make_job(kind="TrainJob").network == {"subdomain": "meet"}


def test_the_document_of_a_job_is_what_the_changes_have_made_of_it():
    job = make_job()
    job.changes.set(("metadata", "labels", "a"), "b", rule="r", reason="because")
    assert job.document["metadata"]["labels"]["a"] == "b"
