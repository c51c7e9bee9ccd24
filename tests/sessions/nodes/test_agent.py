"""The agent of a node: engines in pods take turns on the device of their claim, and the claim says who has it."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from tests.sessions.devices.houses import missing
from tests.sessions.nodes.yards import Yard, told

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no budget of memory can be enforced here: {missing()}")


@pytest.fixture
async def yard(tmp_path):
    async with Yard(tmp_path) as made:
        made.server.claim("muster-seat-0", "gpu-0")
        made.server.claim("muster-seat-1", "gpu-1")
        yield made


async def test_two_sessions_in_pods_of_one_claim_take_turns_and_the_claim_says_who_has_the_device(yard):
    one = await yard.engine(yard.pod("a-trainer", "muster-seat-0"), "a")
    other = await yard.engine(yard.pod("b-trainer", "muster-seat-0"), "b")
    one.tell("hold")
    await told(one, "holds")
    held = await yard.server.until("muster-seat-0", lambda lease: lease["holder"] == "a-trainer")
    assert (held["changes"], held["turns"]) == (0, {"team-a/a": 1})
    other.tell("hold")
    await told(one, "away")
    await told(other, "holds")
    held = await yard.server.until("muster-seat-0", lambda lease: lease["holder"] == "b-trainer")
    assert (held["changes"], held["turns"]) == (1, {"team-a/a": 1, "team-a/b": 1})
    one.tell("hold")
    await told(other, "away")
    held = await yard.server.until("muster-seat-0", lambda lease: lease["changes"] == 2)
    assert held["turns"] == {"team-a/a": 2, "team-a/b": 1}
    assert yard.server.lease("muster-seat-1") is None


async def test_a_claim_on_whose_device_nobody_takes_turns_any_more_says_nothing_of_it(yard):
    yard.server.claims["muster-seat-1"]["metadata"]["annotations"]["muster.dev/lease"] = '{"of": "a former agent"}'
    for number, name in enumerate("ab"):
        engine = await yard.engine(yard.pod(name, f"muster-seat-{number}"), name)
        engine.tell("hold")
        await told(engine, "holds")
        await yard.server.until(f"muster-seat-{number}", lambda lease, name=name: lease.get("holder") == name)
        await asyncio.to_thread(engine.end)
        await yard.server.silent(f"muster-seat-{number}")


async def test_who_waits_is_told_by_the_name_of_its_pod(tmp_path):
    async with Yard(tmp_path, turn=3600) as yard:
        yard.server.claim("muster-seat-0", "gpu-0")
        one = await yard.engine(yard.pod("a-trainer", "muster-seat-0"), "a")
        other = await yard.engine(yard.pod("a-sampler", "muster-seat-0"), "a")
        one.tell("hold")
        await told(one, "holds")
        other.tell("hold")  # of the same session, so it waits until the holder has nothing more to do
        held = await yard.server.until("muster-seat-0", lambda lease: lease["waiting"])
        assert (held["holder"], held["waiting"]) == ("a-trainer", ["a-sampler"])


async def test_engines_of_two_claims_have_their_devices_at_the_same_time(yard):
    one = await yard.engine(yard.pod("a", "muster-seat-0"), "a")
    other = await yard.engine(yard.pod("b", "muster-seat-1"), "b")
    for each in (one, other):
        each.tell("hold")
        await told(each, "holds")
    for number, pod in enumerate("ab"):
        await yard.server.until(f"muster-seat-{number}", lambda lease, pod=pod: lease["holder"] == pod)
    text = yard.node.metrics().decode()
    assert 'muster_device_grants_total{device="n1/gpu-0"} 1' in text
    assert 'muster_device_grants_total{device="n1/gpu-1"} 1' in text


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("no pod", "your process is in no pod: only engines of pods take turns here"),
        ("no claim", "has no claim of a profile in team-a: give its engines a profile"),
        ("two devices", "claim muster-pair-0 has 2 devices: turns are taken on one device; give the profile count: 1"),
    ],
)
async def test_who_has_no_device_here_is_refused_with_a_sentence_and_the_others_go_on(yard, place, sentence):
    yard.server.claim("muster-pair-0", "gpu-0", "gpu-1")
    pods = {"no pod": None, "no claim": yard.pod("x"), "two devices": yard.pod("x", "muster-pair-0")}
    refused = yard.begun(pods[place], "x")
    assert await asyncio.to_thread(refused.ended) == 1
    assert sentence in yard.log()
    one = await yard.engine(yard.pod("a", "muster-seat-0"), "a")
    one.tell("hold")
    await told(one, "holds")


async def test_while_the_api_server_is_away_engines_wait_and_those_that_are_known_take_turns(yard):
    one = await yard.engine(yard.pod("a", "muster-seat-0"), "a")
    yard.server.is_away = True
    other = yard.begun(yard.pod("b", "muster-seat-0"), "b")
    async with asyncio.timeout(60):
        await yard.server.asked_in_vain.wait()
    one.tell("hold")
    await told(one, "holds")
    yard.server.is_away = False
    await told(other, "joined")
    other.tell("hold")
    await told(other, "holds")


async def test_an_agent_that_is_started_again_places_the_engines_of_the_former_one_and_goes_on(yard):
    one = await yard.engine(yard.pod("a", "muster-seat-0"), "a")
    other = await yard.engine(yard.pod("b", "muster-seat-0"), "b")
    one.tell("hold")
    await told(one, "holds")
    await yard.node.close()
    await yard.begin()
    await told(one, "away")
    other.tell("hold")
    await told(other, "holds")
    held = await yard.server.until("muster-seat-0", lambda lease: lease["holder"] == "b")
    assert held["turns"] == {"team-a/b": 1}


async def test_a_claim_that_is_gone_or_made_anew_is_told_nothing_and_the_others_are(yard):
    one = await yard.engine(yard.pod("a", "muster-seat-0"), "a")
    other = await yard.engine(yard.pod("b", "muster-seat-1"), "b")
    yard.server.claims["muster-seat-0"]["metadata"]["uid"] = "another"
    for each in (one, other):
        each.tell("hold")
        await told(each, "holds")
    await yard.server.until("muster-seat-1", lambda lease: lease["holder"] == "b")
    told_before = yard.server.lease("muster-seat-0")
    assert told_before is None or told_before["holder"] is None


async def test_the_socket_is_for_the_group_of_its_folder(tmp_path):
    os.chown(tmp_path, -1, 65532)
    async with Yard(tmp_path) as yard:
        found = yard.socket.stat()
    assert stat.S_IMODE(found.st_mode) == 0o660
    assert (found.st_uid, found.st_gid) == (os.geteuid(), 65532)
