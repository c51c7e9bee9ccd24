"""Engines of a Gateway as pods that run: a client trains through them, one is lost, and all of it ends."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.suites.sessions.gateways import KINDS, Gateway, restarts
from e2e.suites.support import devices, waits
from e2e.suites.support.installations import Installation

Say = Callable[[str], None]


def test_training_through_engines_in_pods_comes_to_a_mean_reward_of_one(quiet: list[float]) -> None:
    assert len(quiet) == 10
    assert quiet[0] < 1.0
    assert quiet[-1] == 1.0


def test_both_engines_have_a_seat_on_one_claim(gateway: Gateway) -> None:
    pods = [gateway.engine(role) for role in ("trainer", "sampler")]
    (first,), (second,) = (devices.claims_of(pod) for pod in pods)
    assert first == second
    claim = gateway.engines.get("resourceclaims", first)
    assert claim is not None
    assert len(devices.allocated(claim)) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("role", ["trainer", "sampler"])
def test_a_run_goes_on_to_the_same_rewards_when_the_pod_of_an_engine_is_killed(
    gateway: Gateway, quiet: list[float], say: Say, role: str
) -> None:
    with gateway.training() as training:
        training.until(3)
        killed, begun = gateway.engine(role)["metadata"], time.monotonic()
        # A second, not none: see `support.deployments`.
        gateway.engines.delete("pod", killed["name"], grace=1).expect()
        training.until(5)
        say(f"two steps later after {time.monotonic() - begun:.0f} s")
        disturbed = training.end()
    # Without a wait: a run that needed the engine does not end before there is another.
    assert gateway.ready(role)["metadata"]["uid"] != killed["uid"]
    assert disturbed == quiet


@pytest.mark.thorough
@pytest.mark.parametrize("role", ["trainer", "sampler"])
def test_a_run_goes_on_to_the_same_rewards_when_the_process_of_an_engine_ends_in_its_pod(
    gateway: Gateway, quiet: list[float], say: Say, role: str
) -> None:
    with gateway.training() as training:
        training.until(3)
        before, begun = gateway.engine(role), time.monotonic()
        gateway.terminate(before)
        training.until(5)
        say(f"two steps later after {time.monotonic() - begun:.0f} s")
        disturbed = training.end()
    after = gateway.ready(role)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert restarts(after) == restarts(before) + 1
    assert disturbed == quiet


@pytest.mark.thorough
def test_a_run_goes_on_to_the_same_rewards_when_the_gateway_is_killed(
    gateway: Gateway, quiet: list[float], say: Say
) -> None:
    engines = {role: gateway.engine(role) for role in ("trainer", "sampler")}
    with gateway.training() as training:
        training.until(3)
        begun = time.monotonic()
        gateway.kill()
        training.until(5)
        say(f"two steps later after {time.monotonic() - begun:.0f} s")
        disturbed = training.end()
    assert disturbed == quiet
    for role, before in engines.items():  # which the next one has found as they were
        after = gateway.ready(role)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert restarts(after) == restarts(before)


@pytest.mark.thorough
def test_a_run_goes_on_to_the_same_rewards_when_the_api_server_is_restarted(
    gateway: Gateway, quiet: list[float], installation: Installation, say: Say
) -> None:
    engines = {role: gateway.engine(role) for role in ("trainer", "sampler")}
    with gateway.training() as training:
        training.until(3)
        begun = time.monotonic()
        installation.restart_api_server()  # the client's port is forwarded through it, too
        training.until(5)
        say(f"two steps later after {time.monotonic() - begun:.0f} s")
        disturbed = training.end()
    assert disturbed == quiet
    for role, before in engines.items():
        after = gateway.engine(role)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert restarts(after) == restarts(before)


def test_nothing_of_the_engines_is_left_when_the_gateway_is_told_to_end(gateway: Gateway, say: Say) -> None:
    for role in ("trainer", "sampler"):
        gateway.engine(role)
    assert set(gateway.left()) == set(KINDS)
    begun = time.monotonic()
    gateway.end()
    told = time.monotonic() - begun
    waits.until("the engines to be gone", lambda: not gateway.left(), 60)
    say(f"the Gateway was gone after {told:.0f} s, its engines after {time.monotonic() - begun:.0f} s")


@pytest.mark.thorough
def test_nothing_of_the_engines_is_left_when_the_gateway_is_removed_together_with_its_rights(
    gateway: Gateway, say: Say
) -> None:
    for role in ("trainer", "sampler"):
        gateway.engine(role)
    begun = time.monotonic()
    gateway.uninstall()
    waits.until("the engines to be gone", lambda: not gateway.left(), 60)
    say(f"gone {time.monotonic() - begun:.0f} s after the Gateway was deleted with its rights")
