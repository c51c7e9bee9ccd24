"""The audit record of a decision: who and what it was about, and how long it took."""

from __future__ import annotations

import datetime

import orjson
import pytest

from muster.webhook.admission import accounts
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
