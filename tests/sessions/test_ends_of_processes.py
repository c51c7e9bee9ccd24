from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum
from tests.sessions.test_order import EXAMPLES, PROBE

STEPS = 6


def sent(one, seq):
    """Send the requests of one step."""
    return [one.step(seq + at, [datum(each)]) for at, each in enumerate(EXAMPLES)] + [one.optim(seq + len(EXAMPLES))]


def trained(one, disturb=lambda _: None):
    one.create()
    for number in range(STEPS):
        ids = sent(one, 1 + number * 6)
        disturb(number)
        results = [one.result(each) for each in ids]
        assert all(each.metrics["loss:sum"] > 0 for each in results[:-1])
        assert results[-1]["metrics"]["steps:sum"] == number + 1
    return one.logprobs(1 + STEPS * 6, PROBE)


@pytest.mark.parametrize("seed", [1, *(pytest.param(each, marks=pytest.mark.thorough) for each in (2, 3))])
def test_a_trainer_that_is_killed_at_any_point_loses_no_gradient_and_applies_none_twice(gateway, hand, seed):
    chance = random.Random(seed)  # noqa: S311  # when to kill, no secret
    undisturbed = trained(hand(gateway))

    def disturb(number):
        if number in {1, 3, 4}:
            time.sleep(chance.random() / 20)  # at some point of the step, which one does not matter
            os.kill(gateway.engine("trainer"), signal.SIGKILL)

    assert trained(hand(gateway), disturb) == undisturbed


def test_a_trainer_that_is_killed_again_while_it_makes_the_model_anew_loses_nothing(gateway, hand):
    undisturbed = trained(hand(gateway))

    def disturb(number):
        if number == STEPS - 1:
            for pause in (0, 0.4, 0.5, 0.6, 0.7):
                time.sleep(pause)  # the engine comes back meanwhile, or is about to
                os.kill(gateway.engine("trainer"), signal.SIGKILL)

    assert trained(hand(gateway), disturb) == undisturbed


def test_a_gateway_that_is_killed_goes_on_where_it_was(gateway, hand):
    undisturbed = trained(hand(gateway))
    one = hand(gateway)

    def disturb(number):
        if number in {0, 2, 5}:
            gateway.kill()
            gateway.start()

    assert trained(one, disturb) == undisturbed


def test_a_sampler_that_is_killed_answers_the_same_afterwards(gateway, hand):
    one = hand(gateway)
    body = {"session_id": one.session, "sampling_session_seq_id": 0, "base_model": one.base}
    sampler = one.post("create_sampling_session", body)["sampling_session_id"]
    ask = {
        "sampling_session_id": sampler,
        "seq_id": 0,
        "prompt": {"chunks": [{"tokens": [1, 2, 3], "type": "encoded_text"}]},
        "sampling_params": {"max_tokens": 8, "seed": 5},
    }
    first = raw(one, one.post("asample", ask)["request_id"])
    os.kill(gateway.engine("sampler"), signal.SIGKILL)
    assert raw(one, one.post("asample", ask | {"seq_id": 1})["request_id"]) == first


def raw(one, id_):
    while (answer := one.poll(id_)).headers["content-type"] != "application/x-protobuf":
        assert answer.json().get("type") == "try_again", answer.text
    return answer.content


@pytest.mark.thorough
def test_who_waits_for_an_engine_that_cannot_start_is_told_so(tmp_path, hand, monkeypatch):
    monkeypatch.setattr(
        Gateway, "ENGINES", ("--trainer", "tests.sessions.mortal:Never", "--sampler", "tests.sessions.bigram:Sampler")
    )
    with Gateway(tmp_path) as gateway:
        one = hand(gateway)
        asked = {"session_id": one.session, "model_seq_id": 0, "base_model": one.base, "lora_config": {"rank": 4}}
        id_ = one.post("create_model", asked)["request_id"]
        told = ""
        while "ended" not in told:
            answer = one.poll(id_).json()
            assert answer["queue_state"] == "paused_capacity"
            told = answer["queue_state_reason"]
        assert "while it started" in told
