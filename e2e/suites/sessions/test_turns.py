"""Engines of two Gateways in pods take turns on one device, and `muster claims` says whose turn it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from e2e.suites.sessions.gateways import restarts
from e2e.suites.sessions.pairs import Pair
from e2e.suites.support import devices, waits

pytestmark = pytest.mark.thorough

Say = Callable[[str], None]


def rewards_of(pair: Pair, while_they_train: Callable[[list[Any]], None] = lambda _: None) -> list[list[float]]:
    """Train through both at once; returns the mean rewards of each."""
    with ExitStack() as stack:
        trainings = [stack.enter_context(each.training()) for each in pair.gateways]
        while_they_train(trainings)
        return [each.end() for each in trainings]


def test_two_sessions_on_one_device_take_turns_and_muster_claims_says_whose_it_is(pair: Pair, say: Say) -> None:
    holders: set[str] = set()

    def watch(trainings: list[Any]) -> None:
        """Look who has the device until both sessions were seen to have it; the clients train meanwhile."""
        pods = {each["metadata"]["name"]: each for each in pair.gateways[0].engines.pods()}

        def seen() -> bool:
            holder = pair.lease()["holder"]
            if holder is not None:
                holders.add(pods[holder]["metadata"]["labels"]["muster.dev/gateway"])
            return len(holders) == len(pair.gateways)

        for each in trainings:
            each.until(1)
        waits.until("both sessions to have had the device", seen, 120)

    before = waits.until("the lease to be told", pair.lease)
    one, other = rewards_of(pair, watch)
    assert holders == {"a", "b"}
    assert (one[-1], other) == (1.0, one)

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


def test_all_engines_of_both_have_seats_on_one_claim_of_one_device(pair: Pair) -> None:
    pods = [each.engine(role) for each in pair.gateways for role in ("trainer", "sampler")]
    assert {claim for pod in pods for claim in devices.claims_of(pod)} == {pair.claim}
    claim = pair.gateways[0].engines.get("resourceclaims", pair.claim)
    assert claim is not None
    assert len(devices.allocated(claim)) == 1


def test_both_sessions_go_on_to_the_same_rewards_when_the_agent_of_their_node_is_killed(pair: Pair, say: Say) -> None:
    undisturbed = rewards_of(pair)

    def kill(trainings: list[Any]) -> None:
        for each in trainings:
            each.until(2)
        pair.agents.kill()

    assert rewards_of(pair, kill) == undisturbed
    lease = waits.until("the next agent to tell of both", lambda: len(pair.lease()["turns"]) == 2 and pair.lease())
    say(f"{lease}")
    for each in pair.gateways:
        for role in ("trainer", "sampler"):
            assert restarts(each.ready(role)) == 0, "an engine that left in time is not ended"
