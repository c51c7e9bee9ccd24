"""Asynchronous GRPO from one TrainJob: adapters are swapped while requests run, and nothing is thrown away."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import fmean

import pytest

from e2e.suites.support import statuses, waits
from e2e.suites.support.guards import KEPT
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.training import grpos, runs

pytestmark = pytest.mark.thorough

IMAGES = ("trl", "rl")
Say = Callable[[str], None]
_STEPS = 80
_MOST_DROPPED = 0.05
_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_trainer_learns_from_adapters_that_are_swapped_while_requests_run(
    space: Space, keeper: Spare, models: None, say: Say, nodes: int
) -> None:
    begun = time.monotonic()
    learned = ("--learning_rate", "5e-3", "--lora_target_modules", *_MODULES)
    name = runs.start(space, grpos.runtime(space), grpos.asynchronous(space, _STEPS // nodes, *learned, numNodes=nodes))

    ranks = runs.ended(space, name)
    found = grpos.summary(ranks[0].log)
    say(f"ended after {time.monotonic() - begun:.0f} s: {found}")

    assert [rank.report()["worldSize"] for rank in ranks] == [nodes] * nodes
    rewards = grpos.logged(ranks[0].log, "reward")
    assert fmean(rewards[-5:]) > 2 * fmean(rewards[:5]), rewards
    assert found["steps"] == _STEPS // nodes
    assert found["samples"] >= 8 * _STEPS
    assert found["dropped_share"] < _MOST_DROPPED
    assert 0 < found["staleness_mean"] <= found["staleness_max"] <= 1, "samples of a version before are trained on"
    assert abs(found["ratio_mean"] - 1) < 4 * found["ratio_error"], "the ratio is that of staleness alone"
    assert found["probe"] < grpos.EXACT
    waits.until("the sampler to be gone", lambda: not grpos.samplers(space), 60)
    assert grpos.left(space) == []
    told(space, name)


def told(space: Space, name: str) -> None:
    """What the training said of its samples is kept and told."""

    def look() -> bool:
        annotations = (space.jobset(name) or {})["metadata"].get("annotations") or {}
        assert "sampling" in annotations.get(KEPT, ""), annotations
        return True

    waits.until("the report of the first trainer to be kept", look, 60)
    sampling = statuses.told(space.kubectl, name, "-n", space.name, "--check")["sampling"]
    assert sampling["syncs"] >= 1
    assert {"reward", "ratio", "staleness"} <= {member for member, value in sampling.items() if value is not None}


def test_no_sample_is_of_other_weights_when_the_sampler_is_killed_and_starts_again(
    space: Space, models: None, say: Say
) -> None:
    # A step of this size moves the policy by less than the bounds of the ratio, so that other weights would be seen.
    name = runs.start(space, grpos.runtime(space), grpos.asynchronous(space, 16, "--learning_rate", "1e-5"))
    trainer, sampler = grpos.stepped(space, 4), grpos.pod(space, "sampler")

    assert grpos.inside(space, str(sampler["metadata"]["name"]), grpos.KILL_ENGINE)
    begun = time.monotonic()
    before = len(grpos.logged(grpos.log(space, str(trainer["metadata"]["name"])), "reward"))
    grpos.stepped(space, min(16, before + 4))  # those before may have had their samples already
    say(f"sampler killed in its container: {time.monotonic() - begun:.1f} s to the next good step")

    (rank,) = runs.ended(space, name)
    found, ratios = grpos.summary(rank.log), grpos.logged(rank.log, "ratio")
    say(f"{found}")
    assert grpos.RATIO[0] < min(ratios) <= max(ratios) < grpos.RATIO[1], ratios
    assert (found["steps"], found["probe"] < grpos.EXACT) == (16, True)
    assert grpos.left(space) == []
