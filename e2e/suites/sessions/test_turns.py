"""Engines of two Gateways in pods take turns on one device, and `muster claims` says whose turn it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from e2e.cluster.places import REPOSITORY
from e2e.suites.sessions.gateways import restarts
from e2e.suites.sessions.pairs import Pair
from e2e.suites.sessions.trainings import Training
from e2e.suites.support import devices, waits
from muster.sessions.devices import timelines

pytestmark = pytest.mark.thorough

Say = Callable[[str], None]
_PICTURE = REPOSITORY / "build" / "e2e" / "lease.svg"
_SLACK = 0.05  # seconds by which two clocks of one machine tell a moment differently


def rewards_of(pair: Pair, while_they_train: Callable[[list[Training]], None]) -> list[list[float]]:
    """Train through both at once; returns the mean rewards of each."""
    with ExitStack() as stack:
        trainings = [stack.enter_context(each.training()) for each in pair.gateways]
        while_they_train(trainings)
        return [each.end() for each in trainings]


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of a training through both at once, which nobody disturbed.

    Attributes:
        before: what `muster claims` said of the device when it began.
        holders: the Gateways whose engines it then named as holders.
        rewards: mean rewards of each.
    """

    before: dict[str, Any]
    holders: frozenset[str]
    rewards: list[list[float]]


@pytest.fixture(scope="module")
def learned(pair: Pair) -> Learned:
    """Train through both at once, and look who has the device until both were seen to have it."""
    holders: set[str] = set()

    def watch(trainings: list[Training]) -> None:
        pods = {each["metadata"]["name"]: each["metadata"]["labels"] for each in pair.gateways[0].engines.pods()}

        def seen() -> bool:
            if holder := pair.lease()["holder"]:
                holders.add(pods[holder]["muster.dev/gateway"])
            return len(holders) == len(pair.gateways)

        for each in trainings:
            each.until(1)
        waits.until("both sessions to have had the device", seen, 120)

    before = waits.until("the lease to be told", pair.lease)
    rewards = rewards_of(pair, watch)
    return Learned(before, frozenset(holders), rewards)


def test_two_sessions_on_one_device_take_turns_and_muster_claims_says_whose_it_is(
    pair: Pair, learned: Learned, say: Say
) -> None:
    one, other = learned.rewards
    assert (one[-1], other) == (1.0, one)
    assert learned.holders == {"a", "b"}
    before = learned.before

    def told() -> dict[str, Any]:
        lease = pair.lease()
        grown = [lease["turns"][name] - before["turns"].get(name, 0) for name in map(pair.session, pair.gateways)]
        assert min(grown) >= 3, lease
        return lease

    # A turn of each session lies between two of the other: both had several, so the device changed hands as often.
    after = waits.until("the turns of both to be told", told)
    assert after["changes"] - before["changes"] >= 5
    row = pair.row()
    assert row[:2] == [pair.gateways[0].engines.name, pair.claim]
    assert {"a", "b"} <= set(row)
    say(" ".join(row))


def test_the_log_of_the_agent_shows_whose_turn_it_was_and_never_two_at_once(
    pair: Pair, learned: Learned, say: Say
) -> None:
    assert learned.rewards
    had = sorted(pair.agents.spans(), key=lambda each: each.begin)
    assert {each.session for each in had} == {pair.session(each) for each in pair.gateways}
    assert all(one.end <= other.begin + _SLACK for one, other in pairwise(had))
    _PICTURE.parent.mkdir(parents=True, exist_ok=True)
    _PICTURE.write_text(timelines.svg(had), encoding="utf-8")
    say(f"{timelines.summary(had)}; drawn in {_PICTURE}")


def test_all_engines_of_both_have_seats_on_one_claim_of_one_device(pair: Pair) -> None:
    pods = [each.engine(role) for each in pair.gateways for role in ("trainer", "sampler")]
    assert {claim for pod in pods for claim in devices.claims_of(pod)} == {pair.claim}
    claim = pair.gateways[0].engines.get("resourceclaims", pair.claim)
    assert claim is not None
    assert len(devices.allocated(claim)) == 1


def test_both_sessions_go_on_to_the_same_rewards_when_the_agent_of_their_node_is_killed(
    pair: Pair, learned: Learned, say: Say
) -> None:
    def kill(trainings: list[Training]) -> None:
        for each in trainings:
            each.until(2)
        pair.agents.kill()

    assert rewards_of(pair, kill) == learned.rewards
    lease = waits.until("the next agent to tell of both", lambda: len(pair.lease()["turns"]) == 2 and pair.lease())
    say(f"{lease}")
    for each in pair.gateways:
        for role in ("trainer", "sampler"):
            assert restarts(each.ready(role)) == 0, "an engine that left in time is not ended"


def test_a_third_session_is_told_who_has_the_seats_and_gets_them_when_another_one_ends(
    pair: Pair, learned: Learned, say: Say
) -> None:
    pair.third.begin()
    waits.until("the third to wait for seats", pair.third.gated, 60)
    with pair.third.training() as training:
        told = waits.until("the client to say for what it waits", lambda: training.told("waits for a seat"), 90)
        assert f"on claim {pair.claim}, place 1 of 1 in its line" in told
        assert "its seats are taken by muster-a (2), muster-b (2)" in told
        begun = time.monotonic()
        pair.gateways[0].end()
        training.until(1)
        say(f"{told}; its first step was over {time.monotonic() - begun:.0f} s after the end of another session")
        assert training.end() == learned.rewards[0]
