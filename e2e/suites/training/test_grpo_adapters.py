"""Adapters that are hurt, a sampler that does not use them and a trainer that is killed: no run goes on quietly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.training import grpos, runs, verdicts

pytestmark = pytest.mark.thorough

IMAGES = ("trl", "rl")
Say = Callable[[str], None]
_LONG = 500  # steps, of which most are never made
_MIDDLE = 4
_STEPS = 16
_SMALL = ("--learning_rate", "3e-5")
"""A step of this size moves the policy by less than the bounds of the ratio, so that other weights would be seen."""
_OTHER = "manifest.json is not the one that the trainer wrote"


@pytest.mark.parametrize(("fault", "reason"), [("torn", "it is torn"), ("wrong", _OTHER), ("older", _OTHER)])
def test_an_adapter_that_is_hurt_ends_the_job_with_a_reason(
    space: Space, kubectl: Kubectl, keeper: Spare, models: None, fault: str, reason: str
) -> None:
    job = grpos.asynchronous(space, _LONG, *_SMALL, reward="vandal.small_letters")
    name = runs.start(space, grpos.runtime(space, VANDAL=fault), job)

    (rank,) = runs.ended(space, name, "Failed")

    assert rank.code == runs.GUARDED, rank
    assert "the sampler did not take run-" in rank.message
    assert reason in rank.message
    assert len(grpos.logged(rank.log, "reward")) <= 3, "it ends at the third version"
    verdicts.told(space, kubectl, name, "weights-refused", "its sampler refused the weights that it was sent")
    assert grpos.left(space) == []


def test_a_sampler_that_begins_to_answer_from_the_base_ends_the_job_with_a_reason(
    space: Space, kubectl: Kubectl, keeper: Spare, models: None
) -> None:
    name = runs.start(space, grpos.runtime(space, baseless=True), grpos.asynchronous(space, _LONG, *_SMALL))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")
    assert "'ratio'" in grpos.log(space, str(trainer["metadata"]["name"])), "it was right until now"

    grpos.inside(space, str(sampler["metadata"]["name"]), grpos.ANSWER_FROM_THE_BASE)

    (rank,) = runs.ended(space, name, "Failed")
    assert rank.code == runs.GUARDED, rank
    assert "the share of the adapter's effect that the sampler does not show was over 0.5 3 times" in rank.message
    verdicts.told(space, kubectl, name, "weights-differ", "its sampler served other weights than were trained")
    assert grpos.left(space) == []


@pytest.mark.parametrize(
    ("retries", "restarts", "kept"),
    [(0, 3, False), (2, None, True)],
    ids=["with both roles started again", "alone, with its sampler kept"],
)
def test_an_asynchronous_trainer_that_is_killed_begins_again(
    space: Space, models: None, say: Say, retries: int, restarts: int | None, kept: bool
) -> None:
    made = grpos.runtime(space, retries=retries, restarts=restarts, MUSTER_WEIGHTS_LEASE="5")
    name = runs.start(space, made, grpos.asynchronous(space, _STEPS, *_SMALL))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")
    before = served(space, sampler)
    assert before, "adapters are served"

    assert grpos.inside(space, str(trainer["metadata"]["name"]), grpos.KILL_ROLLOUTS)
    begun = time.monotonic()
    grpos.stepped(space, 1, trainer["metadata"]["uid"])
    say(f"asynchronous trainer killed, kept {kept}: {time.monotonic() - begun:.1f} s to the next good step")

    after = grpos.pod(space, "sampler")
    assert (after["metadata"]["uid"] == sampler["metadata"]["uid"]) == kept
    if kept:
        assert not set(before) & set(served(space, after)), "the adapters of the dead trainer are unloaded"
    (rank,) = [each for each in runs.ended(space, name) if each.code == 0]
    found, ratios = grpos.summary(rank.log), grpos.logged(rank.log, "ratio")
    assert grpos.RATIO[0] < min(ratios) <= max(ratios) < grpos.RATIO[1], ratios
    assert (found["steps"], found["probe"] < grpos.EXACT) == (_STEPS, True)
    assert grpos.left(space) == []


def served(space: Space, sampler: dict[str, Any]) -> list[str]:
    """Return the adapters that a sampler serves."""
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/muster_weights').read().decode())"
    return list(json.loads(grpos.inside(space, str(sampler["metadata"]["name"]), ask))["adapters"])
