"""The audit record of a decision: who and what it was about, and how long it took."""

from __future__ import annotations

import datetime

import orjson
import pytest

from muster.webhook.admission import accounts, answers
from tests.support import admissions, jobs

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def recorded(document, latency=0.1, **review):
    return accounts.record(admissions.decide(document, **review), NOW, latency)


def test_the_latency_is_written_in_whole_microseconds():
    assert recorded(jobs.make_trainjob(), 2.5)["latencyMicroseconds"] == 2_500_000
    assert recorded(jobs.make_trainjob(), 0.0000016)["latencyMicroseconds"] == 2


@pytest.mark.parametrize(
    ("requested", "written", "name"), [("asked", "own", "asked"), ("", "own", "own"), ("", "", "")]
)
def test_an_object_is_named_by_its_request_and_else_by_itself(requested, written, name):
    document = jobs.make_trainjob(written)
    assert recorded(document, name=requested)["object"]["name"] == name


LONG = "a" * 3_000_000


@pytest.mark.parametrize(
    "sent",
    [
        {"uid": LONG},
        {"namespace": LONG},
        {"name": LONG},
        {"userInfo": {"username": LONG, "groups": [LONG]}},
        {"userInfo": {"username": "ada", "groups": ["g"] * 500_000}},
        {"userInfo": {"username": "ada", "groups": [{"a": LONG}] * 2}},
    ],
    ids=["uid", "namespace", "name", "username", "groups", "objects"],
)
def test_who_sent_a_job_takes_no_more_room_in_a_record_than_anybody_has(sent):
    assert len(orjson.dumps(recorded(jobs.make_trainjob(), **sent))) < 16_384


def test_a_record_tells_how_many_groups_it_omits():
    groups = [f"g{number}" for number in range(1300)]
    told = recorded(jobs.make_trainjob(), userInfo={"username": "ada", "groups": groups})["user"]["groups"]
    assert (told[:1000], told[1000:]) == (groups[:1000], ["and 300 more"])


def jobset_with_a_secret(secret, script="train.py"):
    """A JobSet that has a secret in its env, and again as the name of a replicated job."""
    env = [{"name": "HF_TOKEN", "value": secret}]
    container = {"command": ["torchrun", "train.py"], "args": [script], "env": env}
    document = jobs.make_jobset(secret, framework="torch", container=container, nodes=2)
    document["spec"]["replicatedJobs"][0]["name"] = secret
    return document


def told(document):
    decision = answers.without_secrets(admissions.decide(document))
    return accounts.record(decision, NOW, 0.1)


@pytest.mark.parametrize("script", ["train.py", " ".join(map(str, range(40_000)))], ids=["short", "long"])
def test_what_the_job_has_as_a_secret_is_hidden_in_every_change_however_long_the_job_is(script):
    changes = orjson.dumps(told(jobset_with_a_secret("zq7xplanted8secret", script))["changes"]).decode()
    assert "zq7xplanted8secret" not in changes
    assert "MASTER_ADDR" in changes


def test_a_job_is_found_by_its_name_even_where_it_says_that_the_name_is_a_secret():
    assert told(jobset_with_a_secret("zq7xplanted8secret"))["object"]["name"] == "zq7xplanted8secret"
