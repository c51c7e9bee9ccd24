"""The audit record of a decision: who and what it was about, and how long it took."""

from __future__ import annotations

import datetime

import pytest

from tests.support import admissions, jobs
from webhook.admission import accounts

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
