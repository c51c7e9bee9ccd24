"""What is found out about one part of a training is not found out again after each change to another part."""

from __future__ import annotations

import copy

from strategies.launches import worlds
from tests.support import admissions, jobs


def training(count):
    made = jobs.make_jobset("large", framework="torch", container={"command": ["torchrun", "train.py"]})
    (one,) = made["spec"]["replicatedJobs"]
    every = [copy.deepcopy(one) | {"name": f"worker-{number}" if number else "leader"} for number in range(count)]
    for each in every:
        each["template"]["metadata"] = {"labels": {"muster.dev/role": "trainer"}}
    made["spec"]["replicatedJobs"] = every
    return made


def worlds_read(count, monkeypatch):
    read = []
    own = worlds.worlds_of
    monkeypatch.setattr(worlds, "worlds_of", lambda *what: read.append(1) or own(*what))
    decision = admissions.decide(training(count))
    assert decision.verdict == "patched"
    assert len({change.field.partition("]")[0] for change in decision.changes}) > count
    return len(read)


def test_the_worlds_that_are_read_grow_with_the_parts_and_not_with_their_square(monkeypatch):
    few, many = worlds_read(8, monkeypatch), worlds_read(32, monkeypatch)
    assert few >= 8
    assert many <= 5 * few


def test_a_change_of_one_part_is_seen_in_its_world():
    found = admissions.decide(training(4))
    sizes = {
        entry["value"]
        for job in found.document["spec"]["replicatedJobs"]
        for entry in job["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
        if entry["name"] == "MUSTER_EXPECTED_WORLD_SIZE"
    }
    assert sizes == {"4"}
