from __future__ import annotations

import subprocess
import sys

import pytest

from muster.webhook.cluster import memory, readers

JOB = readers.Ref("TrainJob", "team-a", "llama")


def test_a_given_document_is_answered_and_any_other_does_not_exist(trainjob):
    reader = memory.InMemoryReader([trainjob()])
    assert reader.get(JOB) == trainjob()
    assert reader.get(JOB._replace(name="other")) is None


def test_all_documents_of_one_kind_are_those_that_were_given_and_can_be_read(trainjob, snapshot):
    reader = memory.InMemoryReader([trainjob("a"), trainjob("b"), snapshot("no runtime")])
    assert [document["metadata"]["name"] for document in reader.every("TrainJob", {})] == ["a", "b"]
    assert list(reader.every("RuntimeSnapshot", {})) == []
    assert list(reader.every("Node", {})) == []
    with pytest.raises(readers.UnknownKindError):
        reader.every("Pod", {})


def test_documents_of_other_kinds_are_ignored():
    reader = memory.InMemoryReader()
    assert reader.add({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}) is None
    assert reader.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}) is None


def test_a_raw_snapshot_is_answered_as_the_runtime_in_it(snapshot):
    reader = memory.InMemoryReader([snapshot("kind: TrainingRuntime\nmetadata: {name: trl}\nstatus: {}")])
    assert reader.get(readers.Ref("RuntimeSnapshot", "team-a", "llama")) == {
        "kind": "TrainingRuntime",
        "metadata": {"name": "trl"},
    }


def test_a_broken_snapshot_fails_when_it_is_asked_for_each_time(snapshot, trainjob):
    reader = memory.InMemoryReader([snapshot("a: ["), trainjob()])
    assert reader.get(JOB)
    for _ in range(2):
        with pytest.raises(readers.SnapshotInvalid, match="team-a/llama-runtime-snapshot"):
            reader.get(readers.Ref("RuntimeSnapshot", "team-a", "llama"))


def test_one_object_given_twice_is_an_error_that_names_both_places(trainjob):
    reader = memory.InMemoryReader()
    reader.add(trainjob(), source="jobs.yaml document 1")
    with pytest.raises(
        memory.DuplicateError, match=r"TrainJob team-a/llama is given twice: in jobs\.yaml document 1 and in more\.yaml"
    ):
        reader.add(trainjob(numNodes=2), source="more.yaml document 3")
    assert reader.get(JOB) == trainjob()


@pytest.mark.parametrize("metadata", [None, "llama", {}, {"name": ""}, {"name": 3}])
def test_a_document_without_a_name_is_an_error_that_names_the_place(trainjob, metadata):
    with pytest.raises(memory.UnnamedError, match=r"jobs\.yaml document 2: TrainJob has no metadata\.name"):
        memory.InMemoryReader().add({**trainjob(), "metadata": metadata}, source="jobs.yaml document 2")


def test_a_document_without_a_namespace_is_in_the_default_one(trainjob):
    document = {**trainjob(), "metadata": {"name": "llama"}}
    reader = memory.InMemoryReader([document], default_namespace="team-b")
    assert reader.get(readers.Ref("TrainJob", "team-b", "llama")) == document


def test_a_namespace_is_found_without_a_namespace():
    reader = memory.InMemoryReader([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}])
    assert reader.get(readers.Ref("Namespace", "", "team-a"))["metadata"] == {"name": "team-a"}


def test_an_unknown_kind_is_an_error():
    with pytest.raises(readers.UnknownKindError):
        memory.InMemoryReader().get(readers.Ref("Pod", "team-a", "x"))


def test_offline_use_imports_no_client():
    code = "import sys, muster.webhook.cluster.memory, muster.webhook.cluster.live; print('aiohttp' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
