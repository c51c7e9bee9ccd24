"""`muster claims`, against a cluster in memory."""

from __future__ import annotations

import datetime
import json

import pytest
import yaml

from muster.kube import clients
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.seats import Seat, format_seats
from muster.webhook.cli import main
from muster.webhook.controllers import desired
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace, pod

SAMPLER = Profile("sampler", "gpu.example.com", sharing="shared", max_sessions=2, claims=2)
TRAINER = Profile("trainer", "gpu.example.com", count=2)
CONFIG = {
    "profiles": {
        "sampler": {"deviceClass": "gpu.example.com", "sharing": "shared", "maxSessions": 2, "claims": 2},
        "trainer": {"deviceClass": "gpu.example.com", "count": 2},
    }
}


@pytest.fixture
def server(monkeypatch):
    made = ApiServer()
    made.put(namespace())

    async def connect(_kubeconfig=None, _context=None):
        return made.connection()

    monkeypatch.setattr(clients, "connect", connect)
    return made


@pytest.fixture
def show(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")

    def run(*options, config=CONFIG):
        path = tmp_path / "muster.yaml"
        path.write_text(yaml.safe_dump(config))
        code = main.main(["claims", "--config", str(path), *options])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def busy(server):
    """One shared claim with two holders and one who waits, one free, one template."""
    held = {
        server.put(pod(f"{name}-0", "muster-sampler-0", job=name, gated=False))["metadata"]["uid"]: Seat(
            f"{name}-0", name, f"2026-11-21T12:00:0{number}Z"
        )
        for number, name in enumerate("ab")
    }
    server.put(pod("c-0", "muster-sampler-0", job="c"))
    for name in ("muster-sampler-0", "muster-sampler-1"):
        server.put(desired.made("team-a", name, SAMPLER))
    used = desired.made("team-a", "muster-sampler-0", SAMPLER)
    used["metadata"]["annotations"]["muster.dev/seats"] = format_seats(held)
    used["status"] = {"allocation": {"devices": {"results": [{"pool": "n1", "device": "gpu-3"}]}}}
    server.put(used)
    server.put(desired.made("team-a", "muster-trainer", TRAINER))
    return server


def test_it_shows_seats_devices_holders_and_who_waits(busy, show):
    code, out, _ = show()
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["sampler", "shared", "gpu.example.com", "1", "2", "2", "wait"] in rows
    assert ["team-a", "muster-sampler-0", "2/2", "in", "use", "n1/gpu-3", "a,", "b", "c-0"] in rows
    assert ["team-a", "muster-sampler-1", "0/2", "free", "-", "-", "-"] in rows
    assert ["team-a", "muster-trainer", "trainer", "-"] in rows


def test_json_has_the_same_and_since_when(busy, show):
    _, out, _ = show("-o", "json")
    assert json.loads(out)["schema"] == "muster.dev/claims/v1"
    claim = json.loads(out)["claims"][0]
    assert claim["seats"][0] == {"pod": "a-0", "job": "a", "since": "2026-11-21T12:00:00Z"}
    assert claim["waiting"] == ["c-0"]


@pytest.fixture
def shared(busy):
    """The first claim's device is used in turns; what the agent of its node told is `told(seconds ago, **changed)`."""

    def told(ago, **changed):
        now = datetime.datetime.now(datetime.UTC)
        moment = (now - datetime.timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        since = (now - datetime.timedelta(seconds=ago + 600)).strftime("%Y-%m-%dT%H:%M:%SZ")
        turns = {"team-a/a": 21, "team-a/b": 20}
        said = {"phase": "working", "holder": "a-0", "since": since, "changes": 80, "turns": turns, "waiting": ["b-0"]}
        claim = desired.made("team-a", "muster-sampler-0", SAMPLER)
        claim["metadata"]["annotations"]["muster.dev/lease"] = json.dumps({**said, "at": moment, **changed})
        busy.put(claim)

    return told


def leases(out):
    """The rows of the table of leases, without what ages."""
    _, _, table = out.partition("DEVICE HELD BY")
    return [line.split() for line in table.partition("\n\n")[0].splitlines()[1:]]


def test_it_shows_who_has_a_device_now_for_how_long_and_how_often_that_changed(shared, show):
    shared(2)
    (row,) = leases(show()[1])
    assert row[:9] == ["team-a", "muster-sampler-0", "a-0", "(working)", "10m", "80", "a", "21,", "b"]
    assert row[9:11] == ["20", "b-0"]
    assert row[-1] == "ago"


def test_a_device_that_nobody_has_has_no_holder_and_no_age(shared, show):
    shared(2, phase="free", holder=None, since=None, waiting=[], turns={})
    (row,) = leases(show()[1])
    assert row[:8] == ["team-a", "muster-sampler-0", "-", "(free)", "-", "80", "-", "-"]


def test_an_agent_that_has_told_nothing_for_long_is_said_to_be_silent(shared, show):
    shared(600)
    assert "10m ago; its agent is silent" in show()[1]
    shared(100)
    assert "silent" not in show()[1]


def test_json_has_the_lease_with_its_moments(shared, show):
    shared(2)
    claims = json.loads(show("-o", "json")[1])["claims"]
    assert claims[0]["lease"]["holder"] == "a-0"
    assert claims[0]["lease"]["turns"] == {"team-a/a": 21, "team-a/b": 20}
    assert claims[1]["lease"] is None


@pytest.mark.parametrize("text", ["oops", "[]", '{"phase": "working"}', '{"phase": 1, "turns": 7}', "[" * 5000])
def test_a_lease_that_no_agent_wrote_is_unreadable(busy, show, text):
    claim = desired.made("team-a", "muster-sampler-0", SAMPLER)
    claim["metadata"]["annotations"]["muster.dev/lease"] = text
    busy.put(claim)
    (row,) = leases(show()[1])
    assert row[2:4] == ["-", "(unreadable)"]


def test_without_leases_there_is_no_table_of_them(busy, show):
    assert "DEVICE HELD BY" not in show()[1]


def test_a_changed_profile_shows_its_claims_as_old(busy, show):
    changed = {"profiles": {**CONFIG["profiles"], "sampler": {**CONFIG["profiles"]["sampler"], "count": 4}}}
    _, out, _ = show(config=changed)
    assert out.count(" old ") == 2


def test_without_profiles_limits_are_unknown_and_that_is_said(busy, show):
    code, out, err = show(config={})
    assert (code, "2/?" in out) == (0, True)
    assert "without profiles (--config FILE)" in err


def test_another_namespace_shows_nothing_of_this_one(busy, show):
    _, out, _ = show("-n", "team-b")
    assert "there are no claims or templates of Muster" in out


def test_seats_that_are_unreadable_are_said_to_be(busy, show):
    broken = desired.made("team-a", "muster-sampler-1", SAMPLER)
    broken["metadata"]["annotations"]["muster.dev/seats"] = "oops"
    busy.put(broken)
    assert "unreadable" in show()[1]


def test_a_cluster_that_refuses_ends_with_one_line(server, show):
    def forbidden(_method, plural):
        raise RefusedError(403, f"{plural} is forbidden")

    server.faults = forbidden
    code, out, err = show()
    assert (code, out) == (2, "")
    assert err == "muster: the cluster cannot be read: HTTP 403: resourceclaims is forbidden\n"
