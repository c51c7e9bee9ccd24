"""What decisions read comes from files: the input's own documents first, then runtimes that are named, or ours."""

from __future__ import annotations

import sys

import pytest

from muster.webhook import manifests
from muster.webhook.cli import gathering
from muster.webhook.cli.problems import CommandError
from tests.cli import jobs

ROWS = jobs.trainjob("sft", "own", command=["torchrun", "train.py"], numNodes=2)


def runtime_of(muster, *documents, options=()):
    stdin = jobs.stream(*documents)
    return muster("explain", "--no-jobset", "-o", "json", "-f", "-", *options, stdin=stdin).json()[-1]["runtime"]


def test_a_runtime_that_stands_in_the_input_is_used(muster):
    assert runtime_of(muster, jobs.runtime("own"), ROWS)["file"] == "stdin:doc 1"


def test_a_runtime_of_the_input_wins_over_ours(muster):
    own = jobs.runtime("trl-distributed", "torch")
    found = runtime_of(muster, own, jobs.two_nodes())
    assert found["file"] == "stdin:doc 1"


def test_named_runtimes_replace_ours(muster, write):
    path = write("runtimes/own.yaml", jobs.stream(jobs.runtime("own")))
    for name in (path, path.parent):
        assert runtime_of(muster, ROWS, options=["--runtimes", name])["file"] == f"{path}:doc 1"
    assert runtime_of(muster, jobs.two_nodes(), options=["--runtimes", path]) is None


def test_several_places_of_runtimes_are_read(muster, write):
    first = write("a.yaml", jobs.stream(jobs.runtime("a")))
    second = write("b.yaml", jobs.stream(jobs.runtime("own")))
    found = runtime_of(muster, ROWS, options=["--runtimes", first, "--runtimes", second])
    assert found["file"] == f"{second}:doc 1"


def test_a_runtime_of_a_namespace_is_found_in_that_namespace_only(muster):
    own = jobs.runtime("own", kind="TrainingRuntime")
    own["metadata"]["namespace"] = "team"
    job = {**ROWS, "spec": {**ROWS["spec"], "runtimeRef": {"name": "own", "kind": "TrainingRuntime"}}}
    assert runtime_of(muster, own, job, options=["-n", "team"])["name"] == "own"
    assert runtime_of(muster, own, job) is None


def test_two_different_runtimes_of_one_name_are_an_error_that_names_both_places(muster):
    documents = [jobs.runtime("own"), jobs.runtime("own", "trl"), ROWS]
    result = muster("check", "-f", "-", stdin=jobs.stream(*documents))
    assert result.code == 2
    assert result.err.startswith("muster: ClusterTrainingRuntime own is given twice: in stdin:doc 1 and in stdin:doc 2")


def test_the_same_runtime_twice_is_no_contradiction(muster):
    assert runtime_of(muster, jobs.runtime("own"), jobs.runtime("own"), ROWS)["name"] == "own"


def test_a_trainjob_may_stand_in_several_files_as_one_for_each_environment(muster, write, tmp_path):
    write("dev/job.yaml", jobs.stream(jobs.two_nodes()))
    write("prod/job.yaml", jobs.stream(jobs.trainjob("sft", "torch-distributed", command=["torchrun", "x"])))
    result = muster("check", "-f", tmp_path)
    assert (result.code, result.err) == (0, "2 jobs: 0 errors, 0 warnings\n")


def test_a_runtime_of_the_wrong_shape_is_named_with_its_place_and_field(muster):
    broken = {**jobs.runtime("own"), "spec": {"template": {"spec": {"replicatedJobs": "node"}}}}
    result = muster("check", "-f", "-", stdin=jobs.stream(broken))
    assert result.code == 2
    assert "muster: stdin:doc 1 line 1: spec.template.spec.replicatedJobs: 'node': must be a list" in result.err


def test_a_runtime_file_that_cannot_be_read_ends_the_command(muster, write):
    result = muster("check", "--runtimes", write("own.yaml", "a: ["), "-f", "-", stdin=jobs.stream(ROWS))
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("member", ["metadata", "data", "spec", "kind", "apiVersion"])
@pytest.mark.parametrize("value", ["text", [1], 3, None])
@pytest.mark.parametrize(
    "document",
    [
        jobs.runtime("own"),
        jobs.namespace("default", "enforce"),
        jobs.configmap("sft-runtime-snapshot", runtime="a: b"),
        {**jobs.configmap("claims"), "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"},
    ],
    ids=lambda document: document["kind"],
)
def test_documents_of_any_shape_are_used_passed_over_or_named(muster, document, member, value):
    result = muster("explain", "-f", "-", stdin=jobs.stream({**document, member: value}, ROWS, jobs.jobset("sft")))
    assert result.code in (0, 1, 2)
    assert "Traceback" not in result.err
    assert "Muster failed" not in result.out + result.err
    if result.code == 2:
        assert result.err.startswith("muster: stdin:doc 1")


def test_our_runtimes_are_those_of_the_checkout(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert (gathering.default_runtimes() / "trl-distributed.yaml").is_file()


def test_an_installation_has_them_beside_its_interpreter(monkeypatch, tmp_path):
    monkeypatch.setattr(manifests, "_CHECKOUT", tmp_path / "none")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(CommandError, match="install the package muster again, or name runtimes with --runtimes"):
        gathering.default_runtimes()
    installed = tmp_path / "share" / "muster" / "runtimes"
    installed.mkdir(parents=True)
    assert gathering.default_runtimes() == installed
