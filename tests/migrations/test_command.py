"""`muster migrate`: what it prints, where the comments stand, how it ends."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook import kubeyaml
from muster.webhook.cli import migrations
from tests.migrations import jobs

LOSES = {"runPolicy": {"ttlSecondsAfterFinished": 5}}


def stream(*documents):
    return kubeyaml.dump_all(documents)


def test_a_job_without_loss_ends_with_0(muster):
    found = muster("migrate", "-", stdin=stream(jobs.pytorch(1)))
    assert found.code == 0
    assert found.out.startswith("# Migrated by muster from PyTorchJob/old (stdin:doc 1).\napiVersion: trainer")
    assert "1 document migrated; 3 members changed in meaning" in found.err


def test_what_has_no_equivalent_stands_at_the_head_and_on_stderr_and_ends_with_1(muster):
    found = muster("migrate", "-", stdin=stream(jobs.pytorch(1, LOSES)))
    assert found.code == 1
    head = found.out.partition("apiVersion")[0]
    assert (
        "# No equivalent in a TrainJob:\n# - spec.runPolicy.ttlSecondsAfterFinished: A TrainJob has no time to" in head
    )
    assert "stdin:doc 1: no equivalent: PyTorchJob/old spec.runPolicy.ttlSecondsAfterFinished: A TrainJob" in found.err
    assert all(len(line) < 140 for line in found.out.splitlines())


def test_a_comment_stands_above_the_member_that_changed(muster):
    lines = muster("migrate", "-", stdin=stream(jobs.pytorch(1))).out.splitlines()
    number = next(number for number, line in enumerate(lines) if line.strip() == "numNodes: 2")
    comment, indent = lines[number - 1], len(lines[number]) - len(lines[number].lstrip())
    assert comment.startswith(f"{' ' * indent}# spec.pytorchReplicaSpecs.Master: The PyTorchJob ended with its Master")


def test_a_comment_of_a_runtime_stands_in_the_runtime(muster):
    out = muster("migrate", "-", stdin=stream(jobs.mpi({"launcherCreationPolicy": "AtStartup"}))).out
    lines = out.splitlines()
    number = next(number for number, line in enumerate(lines) if line.strip() == "dependsOn:")
    assert lines[number - 1].strip().startswith("# spec.launcherCreationPolicy: The launcher now waits")


def test_comments_change_no_value(muster):
    document = jobs.mpi({**LOSES, "launcherCreationPolicy": "AtStartup"})
    out = muster("migrate", "-", stdin=stream(document)).out
    migrated = migrations.migrate(document, {}, frozenset())
    assert list(yaml.safe_load_all(out)) == [json.loads(json.dumps(each)) for each in migrated.documents]


def test_other_documents_pass_as_they_are(muster):
    other = "# ours\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}   # kept\n"
    found = muster("migrate", "-", stdin=f"{other}---\n{stream(jobs.pytorch(1))}---\n{other}")
    assert found.out.count(other) == 2
    assert len(list(yaml.safe_load_all(found.out))) == 3
    assert "2 other documents unchanged" in found.err


def test_a_document_that_cannot_be_migrated_hides_no_other(muster):
    refused = jobs.single("TFJob", {"PS": 1, "Worker": 1})
    found = muster("migrate", "-", stdin=stream(refused, jobs.pytorch(1)))
    assert found.code == 2
    assert "# TFJob/old of stdin:doc 1 was not migrated: spec.tfReplicaSpecs.PS: a TrainJob has one kind" in found.out
    assert "stdin:doc 1: error: TFJob/old was not migrated: spec.tfReplicaSpecs.PS" in found.err
    assert [each["kind"] for each in yaml.safe_load_all(found.out) if each] == ["TrainJob"]


def test_a_file_that_cannot_be_read_hides_no_other(muster, tmp_path):
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_text(stream(jobs.pytorch(1)))
    found = muster("migrate", tmp_path)
    assert found.code == 2
    assert "kind: TrainJob" in found.out
    assert "a.yaml:doc 1" in found.err
    assert "1 could not be read" in found.err


def test_without_a_job_to_migrate_it_ends_with_3(muster):
    found = muster("migrate", "-", stdin=stream({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}))
    assert found.code == 3
    assert "nothing to migrate" in found.err
    assert "kind: ConfigMap" in found.out


def test_the_result_is_checked(muster):
    document = jobs.pytorch(1, command=("torchrun", "--nnodes=1", "train.py"))
    found = muster("migrate", "-", stdin=stream(document))
    assert found.code == 1
    assert "error: TrainJob/old spec.trainer.command" in found.err


def test_a_runtime_that_was_written_beside_the_job_is_found_by_the_check(muster):
    found = muster("migrate", "-", stdin=stream(jobs.single("JAXJob", {"Worker": 2}, command=["python", "x.py"])))
    assert found.code == 0
    assert ": error:" not in found.err


def test_two_jobs_of_one_name_are_checked_apart(muster):
    first, other = jobs.mpi(), jobs.mpi({"slotsPerWorker": 2})
    found = muster("migrate", "-", stdin=stream(first, other))
    assert found.code == 0
    assert found.out.count("kind: TrainJob") == 2


def test_a_diff_compares_the_old_document_with_the_new(muster):
    out = muster("migrate", "-o", "diff", "-", stdin=stream(jobs.pytorch(1))).out
    assert "-kind: PyTorchJob" in out
    assert "+kind: TrainJob" in out


def test_json_has_documents_and_notes(muster):
    refused = jobs.single("TFJob", {"PS": 1, "Worker": 1})
    first, other = muster("migrate", "-o", "json", "-", stdin=stream(jobs.pytorch(1, LOSES), refused)).json()
    assert first["schema"] == "muster.dev/migrate/v1"
    assert [each["kind"] for each in first["documents"]] == ["TrainJob"]
    assert {each["fate"] for each in first["notes"]} == {"lost", "changed"}
    assert first["failure"] is None
    assert (other["documents"], other["from"]) == ([], "TFJob/old")
    assert other["failure"].startswith("spec.tfReplicaSpecs.PS")


def test_a_migrated_file_has_nothing_to_migrate(muster):
    document = jobs.trainjob({"runtimeRef": {"name": "torch-distributed"}, "labels": {"a": "b"}, "trainer": {}})
    once = muster("migrate", "-", stdin=stream(document, jobs.mpi())).out
    again = muster("migrate", "-", stdin=once)
    assert again.code == 3
    assert list(yaml.safe_load_all(again.out)) == list(yaml.safe_load_all(once))


SEEDS = [
    jobs.pytorch(
        1, {"elasticPolicy": {"rdzvConf": [{"key": "a", "value": "b"}]}, "runPolicy": {"schedulingPolicy": {}}}
    ),
    jobs.mpi({"slotsPerWorker": 2}),
    jobs.single(
        "XGBoostJob", {"Master": 1, "Worker": 2}, env=[{"name": "A", "value": "b"}], resources={"limits": {"cpu": 1}}
    ),
    jobs.single("TFJob", {"Worker": 2}),
    jobs.trainjob(
        {"runtimeRef": {"name": "x"}, "podSpecOverrides": [{"targetJobs": [{"name": "node"}], "volumes": []}]}
    ),
    jobs.trainjob(
        {"runtimeRef": {"name": "x"}, "trainer": {"numProcPerNode": "gpu", "resourcesPerNode": {"limits": {"a": 1}}}}
    ),
    jobs.runtime({"numProcPerNode": 4}),
]
VALUES = [
    None,
    0,
    -1,
    True,
    1.5,
    "",
    "x",
    "\x1b[31m\n",
    [],
    [1],
    ["x"],
    [None],
    {},
    {"name": "x"},
    [{"name": "x"}, {"name": 1}],
]


def places(value, at=()):
    yield at
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*at, key))


@st.composite
def damaged(draw):
    document = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 2))):
        found = [each for each in places(document) if each and each[0] in ("spec", "metadata")]
        *around, last = draw(st.sampled_from(found))
        inside = document
        for each in around:
            inside = inside[each]
        inside[last] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return document


@given(document=damaged())
def test_whatever_a_document_holds_it_is_migrated_or_refused(document):
    numbers, referred = migrations.numbers([document])
    with contextlib.suppress(migrations.Unmigrated):
        migrated = migrations.migrate(document, numbers, referred)
        assert migrated is None or list(yaml.safe_load_all(migrations.text(migrated, "x")))


@pytest.mark.parametrize("options", [("-o", "json"), ("-o", "diff"), ()])
def test_no_output_has_a_character_that_a_terminal_obeys(muster, options):
    document = jobs.pytorch(1, {"\x1b[31mred": 1}, labels={"a": "\x1b[2J"})
    found = muster("migrate", *options, "-", stdin=json.dumps(document))
    assert "\x1b" not in found.out + found.err
