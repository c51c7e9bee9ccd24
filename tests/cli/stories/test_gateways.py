"""`muster status` of the engines of a Gateway, whose JobSet is made by the Gateway's own code."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from muster.sessions.platforms import manifests
from muster.webhook.cli.stories import jsons, tellings, texts
from muster.webhook.cli.stories.gathered import Gathered
from tests.cli.stories import recordings

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
    return Gathered("recorded", job_set["metadata"]["name"], NOW, None, job_set)


def test_the_words_are_those_of_the_gateway():
    labels = manifests.job_set(SETTINGS, {"trainer": (), "sampler": ()})["metadata"]["labels"]
    assert labels == dict([tellings.MANAGED_BY]) | {tellings.GATEWAY: "rl"}
    assert tellings.TERM == manifests.TERM


def test_engines_are_in_the_table_of_jobs_as_what_they_are_and_have_no_world_size():
    stories = [tellings.tell(recordings.gathered("running")), tellings.tell(gathered())]
    _, job, engines = (line.split(maxsplit=5) for line in texts.summary(stories, 160, spaces=False))
    assert job[:4] == ["running", "TrainJob", "Running", "?/?"]
    assert engines[:2] == ["muster-rl", "Gateway"]
    assert engines[3] == "-"


def test_whose_engines_they_are_is_told_in_the_place_of_the_world():
    told = list(texts.lines(tellings.tell(gathered()), 100))
    assert told[0].startswith("JobSet recorded/muster-rl: ")
    assert "GATEWAY engines of the Gateway rl, of which process 2 has them" in told
    assert not [line for line in told if line.startswith("WORLD")]
    assert "engines of a Gateway" in texts.brief(tellings.tell(gathered()))


def test_programs_get_its_name_and_term():
    assert jsons.item(tellings.tell(gathered()))["gateway"] == {"name": "rl", "term": 2}
    assert jsons.item(tellings.tell(recordings.gathered("running")))["gateway"] is None


@pytest.mark.parametrize("term", ["", "x", "-1", "\u0662"])
def test_a_term_that_is_none_is_left_out(term):
    story = tellings.tell(gathered(annotations={manifests.TERM: term}))
    assert (story.gateway.name, story.gateway.term) == ("rl", None)
    assert "GATEWAY engines of the Gateway rl" in list(texts.lines(story, 100))


@pytest.mark.parametrize(
    "labels", [{}, {"muster.dev/gateway": "rl"}, {"app.kubernetes.io/managed-by": "muster-sessions"}]
)
def test_a_jobset_that_lacks_one_of_the_labels_is_a_job(labels):
    assert tellings.tell(gathered(labels=labels)).gateway is None


def test_a_name_cannot_move_the_cursor():
    hostile = dict([tellings.MANAGED_BY]) | {tellings.GATEWAY: "a\x1b[2Jb\nc" * 99}
    told = list(texts.lines(tellings.tell(gathered(labels=hostile)), 100))
    assert not [line for line in told if "\x1b" in line or "\n" in line]
