"""A TrainJob's patches, applied to a replicated job of its runtime as Trainer applies them."""

from __future__ import annotations

import pytest

from strategies.trainer.runtime_patches import find_patches, patch_replicated_job


def replicated(**metadata):
    return {"name": "node", "template": {"spec": {"template": {"metadata": metadata, "spec": {"containers": []}}}}}


def trainjob(**metadata):
    jobs = [{"name": "node", "template": {"spec": {"template": {"metadata": metadata}}}}]
    patch = {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    return {"spec": {"runtimePatches": [patch]}}


@pytest.mark.parametrize("member", ["labels", "annotations"])
def test_labels_and_annotations_of_a_patch_come_over_those_of_the_runtime(member):
    job = trainjob(**{member: {"changed": "2", "new": "2"}})
    made, written = patch_replicated_job(replicated(**{member: {"kept": "1", "changed": "1"}}), job, find_patches(job))
    metadata = made["template"]["spec"]["template"]["metadata"]
    assert metadata == {member: {"kept": "1", "changed": "2", "new": "2"}}
    assert written == {}


def test_a_patch_of_another_replicated_job_changes_nothing():
    own = replicated(labels={"kept": "1"})
    other = trainjob(labels={"new": "2"})
    assert patch_replicated_job({**own, "name": "other"}, other, find_patches(other))[0] == {**own, "name": "other"}
