"""TrainJobs and runtimes of Trainer 2.0 and 2.1 as those of 2.3."""

from __future__ import annotations

import pytest
import yaml

from muster.strategies.documents import runtimes, trainjobs
from muster.webhook.cli import migrations
from muster.webhook.cli.schemas import schema_shapes, schema_validation
from tests.migrations import jobs

NODE = [{"name": "node"}]
REF = {"runtimeRef": {"name": "torch-distributed"}}


def test_overrides_of_a_pod_spec_become_a_patch(migrated):
    override = {"targetJobs": NODE, "nodeSelector": {"a": "b"}, "serviceAccountName": "s"}
    found = migrated(jobs.trainjob({**REF, "podSpecOverrides": [override]}))
    assert found.patch == {"spec": {"nodeSelector": {"a": "b"}, "serviceAccountName": "s"}}
    assert "podSpecOverrides" not in found.job
    assert found.job["runtimePatches"][0]["manager"] == "muster.dev/migrate"
    assert found.notes == []


def test_overrides_of_a_pod_template_become_a_patch(migrated):
    override = {"targetJobs": NODE, "metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"a": "b"}}}
    found = migrated(jobs.trainjob({**REF, "podTemplateOverrides": [override]}))
    assert found.patch == {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"a": "b"}}}


def test_each_override_becomes_a_patch_and_the_order_stays_so_that_the_later_wins(migrated):
    first = {"targetJobs": NODE, "nodeSelector": {"a": "1"}, "volumes": [{"name": "x", "emptyDir": {}}]}
    other = {"targetJobs": NODE, "nodeSelector": {"a": "2"}, "volumes": [{"name": "y", "emptyDir": {}}]}
    found = migrated(jobs.trainjob({**REF, "labels": {"a": "b"}, "podSpecOverrides": [first, other]}))
    patches = found.job["runtimePatches"]
    assert [each["manager"] for each in patches] == [f"muster.dev/migrate{each}" for each in ("", "-2", "-3")]
    assert [_pod(each)["spec"]["nodeSelector"]["a"] for each in patches[1:]] == ["1", "2"]
    assert [_pod(each)["spec"]["volumes"][0]["name"] for each in patches[1:]] == ["x", "y"]


def _pod(patch):
    return patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]


def test_the_patches_are_those_that_a_finding_of_the_trainer_of_today_says(migrated):
    override = {"targetJobs": [*NODE, {"name": "launcher"}], "spec": {"hostUsers": False}}
    job = jobs.trainjob({**REF, "annotations": {"c": "d"}, "podTemplateOverrides": [override]})
    written = trainjobs.spelled(job, runtimes.NEWEST.patches)
    assert migrated(job).job == {**REF, **written}
    kind = schema_shapes.kinds("2.3")["TrainJob"]
    told = schema_validation.told(job, ("spec", "podTemplateOverrides"), kind, lambda _: False)
    assert "&" not in told
    assert yaml.safe_load(f"{{{told.partition('write this: ')[2]}}}") == written


@pytest.mark.parametrize(
    "spec", [{"labels": "x"}, {"podSpecOverrides": {}}, {"labels": {"a": "b"}, "runtimePatches": 3}]
)
def test_a_member_of_another_type_is_refused(refusal, spec):
    assert "correct it, then migrate" in refusal(jobs.trainjob({**REF, **spec}))


def test_the_whole_path_of_a_member_of_another_type_is_told(refusal):
    override = {"targetJobs": [{"name": ["node"]}], "serviceAccountName": "s"}
    told = refusal(jobs.trainjob({**REF, "podSpecOverrides": [override]}))
    assert told == "spec.podSpecOverrides[0].targetJobs[0].name: must be a string; correct it, then migrate"


def test_an_override_of_several_jobs_patches_each(migrated):
    override = {"targetJobs": [{"name": "node"}, {"name": "model-initializer"}], "serviceAccountName": "s"}
    (patch,) = migrated(jobs.trainjob({**REF, "podSpecOverrides": [override]})).job["runtimePatches"]
    jobs_ = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert [each["name"] for each in jobs_] == ["node", "model-initializer"]


def test_labels_of_the_jobset_become_a_patch(migrated):
    found = migrated(jobs.trainjob({**REF, "labels": {"a": "b"}, "annotations": {"c": "d"}}))
    (patch,) = found.job["runtimePatches"]
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert patch["trainingRuntimeSpec"] == {"template": {"metadata": metadata}}


def test_an_override_of_no_job_is_refused(refusal):
    told = refusal(jobs.trainjob({**REF, "podSpecOverrides": [{"serviceAccountName": "s"}]}))
    assert told.startswith("spec.podSpecOverrides[0].targetJobs: names no replicated job")


@pytest.mark.parametrize(("written", "number"), [("auto", None), ("4", 4), ("gpu", 2)])
def test_a_word_for_the_number_of_processes_becomes_a_number(migrated, written, number):
    trainer = {"numProcPerNode": written, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}}
    assert migrated(jobs.trainjob({**REF, "trainer": trainer})).trainer.get("numProcPerNode") == number


def test_a_number_of_the_runtime_goes_into_its_trainjobs(migrated):
    runtime = jobs.runtime({"numProcPerNode": 4})
    job = jobs.trainjob({"runtimeRef": {"name": "ours"}, "trainer": {"numNodes": 2}})
    assert migrated(job, runtime).trainer == {"numNodes": 2, "numProcPerNode": 4}
    found = migrated(runtime, job)
    assert found.documents[0]["spec"]["mlPolicy"] == {"torch": {}}
    assert "4 is now in the TrainJobs" in found.changed["spec.mlPolicy.torch.numProcPerNode"]
    assert found.lost == {}


def test_a_trainjob_with_its_own_number_keeps_it(migrated):
    runtime = jobs.runtime({"numProcPerNode": 4})
    job = jobs.trainjob({"runtimeRef": {"name": "ours"}, "trainer": {"numProcPerNode": 2}})
    numbers, referred = migrations.numbers([runtime, job])
    assert migrations.migrate(job, numbers, referred) is None


def test_a_number_of_a_runtime_that_nothing_uses_is_lost(migrated):
    found = migrated(jobs.runtime({"numProcPerNode": 4}))
    assert found.lost["spec.mlPolicy.torch.numProcPerNode"].startswith("4: Trainer reads it from the TrainJob")
    assert migrated(jobs.runtime({"numProcPerNode": "auto"})).notes == []


def test_an_elastic_policy_that_was_ignored_is_left_out(migrated):
    found = migrated(jobs.runtime({"elasticPolicy": {"maxRestarts": 3}}))
    assert found.documents[0]["spec"]["mlPolicy"] == {"torch": {}}
    assert "ignored" in found.changed["spec.mlPolicy.torch.elasticPolicy"]


@pytest.mark.parametrize("document", [jobs.trainjob({**REF, "trainer": {"numProcPerNode": 2}}), jobs.runtime({})])
def test_a_document_of_the_trainer_of_today_stays(document):
    assert migrations.migrate(document, {}, frozenset()) is None
