"""The Gateway of the chart: two replicas with a journal in PostgreSQL, of which each may be lost, and so may that.

The last tests take it away, so they come in their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.suites.sessions.charts import Release
from e2e.suites.sessions.gateways import KINDS, restarts
from e2e.suites.support import devices, waits

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough]

Say = Callable[[str], None]
_ROLES = ("trainer", "sampler")
_LEFT = (*KINDS, "configmaps", "resourceclaims")
_DONE = "SELECT id FROM requests WHERE state = 'done'"
_NOT_DONE = "SELECT id FROM requests WHERE state <> 'done'"
_MISSED = "the journal tells nothing"  # what a Gateway logs that has lost its database


@pytest.fixture(scope="module")
def undisturbed(release: Release) -> list[float]:
    """The mean reward of each step of a training that nobody disturbed."""
    release.wait()
    with release.training() as training:
        return training.end()


def engines_of(release: Release) -> dict[str, tuple[str, int]]:
    """Return uid and restarts of the pods of both engines by role."""
    pods = {role: release.gateway.engine(role) for role in _ROLES}
    return {role: (pod["metadata"]["uid"], restarts(pod)) for role, pod in pods.items()}


def restarts_of(release: Release) -> dict[str, int]:
    """Return how often each replica was started again, when both are ready."""
    return {name: restarts(pod) for name, pod in release.wait().items()}


def test_training_through_two_replicas_comes_to_a_mean_reward_of_one(
    release: Release, undisturbed: list[float]
) -> None:
    assert len(undisturbed) == 10
    assert undisturbed[0] < 1.0
    assert undisturbed[-1] == 1.0
    assert len(release.pods()) == 2
    (first,), (second,) = (devices.claims_of(release.gateway.engine(role)) for role in _ROLES)
    assert first == second


def test_the_journal_of_both_is_in_the_database_and_not_in_their_volume(
    release: Release, undisturbed: list[float]
) -> None:
    assert undisturbed
    assert release.database.ask(_DONE)
    assert release.database.ask(_NOT_DONE) == []
    for name in release.wait():
        listed = ("exec", "--namespace", release.gateway.space.name, name, "--", "ls", "/state")
        found = release.gateway.kubectl.run(*listed).expect().out.split()
        assert "signing.key" in found
        assert not [each for each in found if each.startswith("journal")]


@pytest.mark.parametrize("executes", [True, False], ids=["executes", "accepts"])
def test_a_run_goes_on_to_the_same_rewards_through_the_other_replica_when_one_is_killed(
    release: Release, undisturbed: list[float], say: Say, executes: bool
) -> None:
    replicas, executing, engines = set(release.wait()), release.executing(), engines_of(release)
    (other,) = replicas - {executing}
    lost, left = (executing, other) if executes else (other, executing)
    with release.without_new_pods(), release.training() as training:
        training.until(2)
        begun = time.monotonic()
        release.lose(lost)
        kept = release.database.ask(_DONE)
        disturbed = training.end()
        say(f"the run was over {time.monotonic() - begun:.0f} s after")
        assert set(release.pods()) == {left}
        assert release.executing() == left
    assert disturbed == undisturbed
    assert set(kept) < set(release.database.ask(_DONE)), "the run was over before"
    assert engines_of(release) == engines


def test_a_run_goes_on_to_the_same_rewards_when_postgresql_is_killed(
    release: Release, undisturbed: list[float], say: Say
) -> None:
    replicas = restarts_of(release)
    with release.training() as training:
        training.until(2)
        kept, begun = release.database.ask(_DONE), time.monotonic()
        release.database.kill()
        found = release.database.ask(_DONE)
        training.until(4)
        say(f"two steps later after {time.monotonic() - begun:.0f} s")
        disturbed = training.end()
    assert disturbed == undisturbed
    assert set(kept) <= set(found) < set(release.database.ask(_DONE)), "something was lost, or the run was over before"
    assert restarts_of(release) == replicas


def test_a_run_goes_on_to_the_same_rewards_when_postgresql_was_away_until_both_replicas_missed_it(
    release: Release, undisturbed: list[float], say: Say
) -> None:
    replicas = restarts_of(release)
    missed = {name: release.log(name).count(_MISSED) for name in replicas}
    with release.training() as training:
        training.until(2)
        kept, begun = release.database.ask(_DONE), time.monotonic()
        release.database.remove()
        waits.until(
            "both replicas to miss the journal",
            lambda: all(release.log(name).count(_MISSED) > before for name, before in missed.items()),
            60,
        )
        release.database.bring()
        away, found = time.monotonic() - begun, release.database.ask(_DONE)
        training.until(4)
        say(f"it was away for {away:.0f} s, and two steps later after {time.monotonic() - begun:.0f} s")
        disturbed = training.end()
    assert disturbed == undisturbed
    assert set(kept) <= set(found) < set(release.database.ask(_DONE)), "something was lost, or the run was over before"
    assert restarts_of(release) == replicas


def test_nothing_of_the_engines_is_left_when_the_chart_switches_the_gateway_off(release: Release, say: Say) -> None:
    engines_of(release)
    assert set(release.gateway.left(_LEFT)) == {*KINDS, "resourceclaims"}
    begun = time.monotonic()
    release.without_gateway()
    waits.until("the engines to be gone", lambda: not release.gateway.left(_LEFT), 60)
    say(f"gone {time.monotonic() - begun:.0f} s after helm began to upgrade")


def test_a_claim_without_a_device_is_all_that_is_left_of_the_engines_when_the_release_is_uninstalled(
    release: Release, say: Say
) -> None:
    release.with_gateway()
    release.wait()
    engines_of(release)
    begun = time.monotonic()
    release.helm.uninstall()

    def at_rest() -> bool:
        left = release.gateway.left(_LEFT)
        assert set(left) == {"resourceclaims"}, left
        return not devices.taken(release.gateway.engines)

    # Muster's controllers, which remove claims that nothing names any more, went with the release.
    waits.until("all but a claim without a device to be gone", at_rest, 60)
    say(f"gone {time.monotonic() - begun:.0f} s after helm began to uninstall")
    command = ("delete", "resourceclaims", "--selector", "app.kubernetes.io/managed-by=muster")
    release.gateway.kubectl.run(*command, "--namespace", release.gateway.engines.name).expect()
    waits.until("the claim to be gone", lambda: not release.gateway.left(_LEFT))
