"""What is found out about one part of a training is not found out again after each change to another part."""

from __future__ import annotations

import copy

from muster.strategies.claims import requests
from muster.strategies.launches import sites, worlds
from tests.support import admissions, devices, jobs


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
    own = worlds.read_world
    monkeypatch.setattr(worlds, "read_world", lambda *what: read.append(1) or own(*what))
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


def sites_and_requests(count, monkeypatch):
    """How often a command line was looked for, and the claims that a replicated job asks for."""
    found, asked = [], []
    site, request = sites._of_jobset, requests._request
    monkeypatch.setattr(sites, "_of_jobset", lambda job: found.append(1) or site(job))
    monkeypatch.setattr(requests, "_request", lambda *what, **how: asked.append(1) or request(*what, **how))
    made = training(count)
    for each in made["spec"]["replicatedJobs"]:
        each["template"]["metadata"]["annotations"] = {"muster.dev/claim-profile": "quad"}
    decision = admissions.decide(made, devices.device_class(), policy=devices.policy(trl="plain"))
    assert decision.verdict == "patched"
    return len(found), len(asked)


def test_sites_and_claims_of_parts_are_found_as_often_as_changes_touch_the_part(monkeypatch):
    few, many = sites_and_requests(8, monkeypatch), sites_and_requests(32, monkeypatch)
    assert min(few) >= 8
    assert (many[0] <= 5 * few[0], many[1] <= 5 * few[1]) == (True, True)
