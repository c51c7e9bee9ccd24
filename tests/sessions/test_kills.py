"""Processes killed at random moments: every answer is the one of a run that nothing disturbed."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.sessions import errands
from tests.sessions.gateways import Gateway, Torch
from tests.sessions.hand import datum

BURSTS = 10
"""Of one run; a process is killed in each, or in as many as a test says."""


class Killer:
    """Kills one process in each of some bursts: the Gateway, the trainer or the sampler, at a moment that is drawn."""

    def __init__(self, gateway, seed, kills):
        self._gateway, self.killed = gateway, []
        self._chance = random.Random(seed)  # noqa: S311  # when to kill, no secret
        bursts = self._chance.sample(range(BURSTS + 1), kills)
        self._plan = {each: (self._chance.random(), self._chance.choice(ROLES)) for each in bursts}

    def __call__(self, burst, share):
        if burst not in self._plan or share < self._plan[burst][0]:
            return
        _, role = self._plan.pop(burst)
        time.sleep(self._chance.random() / 20)  # at some moment of what was sent; which one does not matter
        self.killed.append(role)
        if role == "gateway":
            self._gateway.kill()
            self._gateway.start()
        else:
            os.kill(self._gateway.engine(role), signal.SIGKILL)


ROLES = ("gateway", "trainer", "sampler")


def disturbed(gateway, undisturbed, seed, kills):
    killer = Killer(gateway, seed, kills)
    assert errands.run(gateway, killer) == undisturbed
    assert len(killer.killed) == kills


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with Gateway(tmp_path_factory.mktemp("plain")) as made:
        yield made, errands.run(made)


@pytest.fixture(scope="module")
def torch(tmp_path_factory):
    with Torch(tmp_path_factory.mktemp("torch")) as made:
        undisturbed = errands.run(made)
        assert failures(undisturbed) == []
        yield made, undisturbed


def failures(answers):
    return [each for burst in answers for each in burst if isinstance(each, dict) and "error" in each]


def test_a_run_answers_the_same_when_nothing_happens_and_tells_no_failure(plain):
    gateway, undisturbed = plain
    assert errands.run(gateway) == undisturbed
    assert failures(undisturbed) == []


@pytest.mark.parametrize("seed", [1, *(pytest.param(each, marks=pytest.mark.thorough) for each in range(2, 21))])
def test_ten_kills_change_no_answer(plain, seed):
    disturbed(*plain, seed, 10)


@pytest.mark.thorough
@pytest.mark.parametrize(("seed", "kills"), [(1, 2), (2, 11)])
def test_kills_of_real_engines_change_no_bit(torch, seed, kills):
    disturbed(*torch, seed, kills)


def test_a_request_at_which_engines_die_three_times_fails_and_the_next_goes_on(tmp_path, hand, monkeypatch):
    monkeypatch.setattr(Gateway, "ENGINES", ("--trainer", "tests.sessions.mortal:Trainer", *Gateway.ENGINES[2:]))
    with Gateway(tmp_path) as gateway:
        one, other = hand(gateway), hand(gateway)
        for each in (one, other):
            each.create()
            each.result(each.step(1, [datum(errands.EXAMPLES[0])]))
        failed = one.result(one.step(2, [datum([1, 31])]))
        assert (failed["category"], "failed at this request" in failed["error"]) == ("server", True)
        for seq, each in ((3, one), (2, other)):
            each.result(each.optim(seq))
        assert one.logprobs(4, errands.PROBE) == other.logprobs(3, errands.PROBE)
