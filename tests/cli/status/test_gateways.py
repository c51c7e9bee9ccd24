"""`muster status` of the engines of a Gateway, whose JobSet is made by the Gateway's own code."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from muster.sessions.platforms import manifests
from muster.webhook.cli import job_status
from muster.webhook.cli.observed import Observed
from tests.cli.status import recordings

SETTINGS = manifests.Settings(
    gateway="rl",
    namespace="recorded",
    peers="gateways",
    image="engine:1",
    volume=manifests.Volume("store", "state"),
    root=Path("/state"),
    base=Path("/base"),
    profile="seat",
)
NOW = recordings.gathered("running").now


def gathered(**changes):
    """What a cluster has about engines that a second process of their Gateway has taken."""
    job_set = copy.deepcopy(manifests.job_set(SETTINGS, {"trainer": (), "sampler": ()}))
    job_set["metadata"]["annotations"][manifests.TERM] = "2"
    job_set["metadata"]["creationTimestamp"] = NOW.isoformat()
    job_set["spec"]["suspend"] = False
    for key, each in changes.items():
        job_set["metadata"][key] = each
    return Observed("recorded", job_set["metadata"]["name"], NOW, {}, job_set)


def test_the_words_are_those_of_the_gateway():
    labels = manifests.job_set(SETTINGS, {"trainer": (), "sampler": ()})["metadata"]["labels"]
    assert labels == dict([job_status.MANAGED_BY]) | {job_status.GATEWAY: "rl"}
    assert job_status.TERM == manifests.TERM


def test_engines_are_in_the_table_of_jobs_as_what_they_are_and_have_no_world_size():
    found = [job_status.of(recordings.gathered("running")), job_status.of(gathered())]
    _, job, engines = (line.split(maxsplit=5) for line in job_status.summary(found, 160, spaces=False))
    assert job[:4] == ["running", "TrainJob", "Running", "?/?"]
    assert engines[:2] == ["muster-rl", "Gateway"]
    assert engines[3] == "-"


def test_whose_engines_they_are_is_told_in_the_place_of_the_world():
    told = list(job_status.lines(job_status.of(gathered()), 100))
    assert told[0].startswith("JobSet recorded/muster-rl: ")
    assert "GATEWAY engines of the Gateway rl, of which process 2 has them" in told
    assert not [line for line in told if line.startswith("WORLD")]
    assert "engines of a Gateway" in job_status.brief(job_status.of(gathered()))


def test_programs_get_its_name_and_term():
    assert (job_status.of(gathered()))["gateway"] == {"name": "rl", "term": 2}
    assert (job_status.of(recordings.gathered("running")))["gateway"] is None


@pytest.mark.parametrize("term", ["", "x", "-1", "\u0662"])
def test_a_term_that_is_none_is_left_out(term):
    status = job_status.of(gathered(annotations={manifests.TERM: term}))
    assert status["gateway"] == {"name": "rl", "term": None}
    assert "GATEWAY engines of the Gateway rl" in list(job_status.lines(status, 100))


@pytest.mark.parametrize(
    "labels", [{}, {"muster.dev/gateway": "rl"}, {"app.kubernetes.io/managed-by": "muster-sessions"}]
)
def test_a_jobset_that_lacks_one_of_the_labels_is_a_job(labels):
    assert job_status.of(gathered(labels=labels))["gateway"] is None


def test_a_name_cannot_move_the_cursor():
    hostile = dict([job_status.MANAGED_BY]) | {job_status.GATEWAY: "a\x1b[2Jb\nc" * 99}
    told = list(job_status.lines(job_status.of(gathered(labels=hostile)), 100))
    assert not [line for line in told if "\x1b" in line or "\n" in line]
