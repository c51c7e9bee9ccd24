"""What the names of replicated jobs say, and what they do not."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import container, jobset, part, training

RUN = ("/run.sh",)


def test_scripts_of_a_leader_and_its_workers_are_one_world_by_their_names():
    document = jobset(training("leader", *RUN), training("worker", *RUN, pods=2))
    assert sets.touched(document) == [("leader", "main"), ("worker", "main")]


def test_scripts_of_any_other_names_are_not():
    document = jobset(training("blue", *RUN), training("green", *RUN, pods=2))
    assert sets.touched(document) == []
    assert sets.rules(document) == [("warning", "core/several-training-jobs")]


def test_a_leader_whose_script_cannot_be_read_leads_workers_that_can():
    document = jobset(training("leader", *RUN), training("workers", pods=3))
    assert sets.touched(document) == [("leader", "main"), ("workers", "main")]


def test_the_only_job_is_the_training_whatever_its_name():
    assert sets.touched(jobset(training("evaluator"))) == [("evaluator", "main")]


def test_a_job_with_devices_is_the_training_beside_one_without():
    document = jobset(part("a", container(*RUN)), training("b", *RUN))
    assert sets.touched(document) == [("b", "main")]


@pytest.mark.parametrize("name", ["workers-a", "gpu-worker", "worker"])
def test_workers_of_different_programs_are_not_one_world(name):
    document = jobset(training("leader", "python", "lead.py"), training(name, "python", "work.py"))
    assert sets.touched(document) == []
    assert sets.rules(document) == [("warning", "core/several-training-jobs")]


def test_more_jobs_than_a_message_can_hold_are_counted():
    (finding,) = sets.decided(jobset(*(training(f"exp-{name}", "torchrun", f"{name}.py") for name in "abcdefgh")))[1]
    assert finding.value.endswith("exp-e and 3 more")
