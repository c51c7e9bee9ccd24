"""Full fine-tuning with torch through a Gateway, by one process and by ranks, whichever of them is killed."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import tinker
from tinker import types

from tests.sessions.gateways import Torch
from tests.sessions.hand import datum

EXAMPLES = [[4, 9, 6, 7], [5, 6, 7, 8, 9, 30], [40, 41, 42]]
STEPS = 3


class Whole(Torch):
    ENGINES = ("--full",)


class Ranks(Torch):
    ENGINES = ("--full", "--ranks", "2", "--trainer-option", "patience=30")

    def second(self):
        """Return the process of the second rank."""
        first = self.engine("trainer")
        while not (found := Path(f"/proc/{first}/task/{first}/children").read_text().split()):
            time.sleep(0.02)
        return int(found[0])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with Whole(tmp_path_factory.mktemp("whole")) as made:
        yield made


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    with Ranks(tmp_path_factory.mktemp("ranks")) as made:
        yield made


@pytest.fixture(scope="module")
def plain(ranks):
    """What a run of ranks gives that nothing disturbs."""
    from tests.sessions.hand import Hand  # noqa: PLC0415  # the client is there only where these tests run

    one = Hand(ranks)
    yield trained(one)
    one.http.close()


def trained(one, disturb=lambda: None):
    """Return the answers of a few steps, and free the model."""
    one.create(rank=0)
    answers = []
    for number in range(STEPS):
        at = 1 + number * (len(EXAMPLES) + 1)
        ids = [one.step(at + place, [datum(each), datum(each[1:])]) for place, each in enumerate(EXAMPLES)]
        if number == 1:
            answers += [one.result(ids.pop(0)).metrics]  # so that there is a gradient to be lost
            disturb()
        answers += [one.result(each).metrics for each in ids]
        answers += [one.result(one.optim(at + len(EXAMPLES), 0.01))["metrics"]]
    answers.append(one.logprobs(1 + STEPS * (len(EXAMPLES) + 1), EXAMPLES[1]))
    one.post("unload_model", {"model_id": one.model})
    return answers


@pytest.mark.thorough
def test_a_trainer_of_all_weights_that_is_killed_goes_on_with_the_same_bits(whole, hand):
    undisturbed = trained(hand(whole))
    assert trained(hand(whole), lambda: os.kill(whole.engine("trainer"), signal.SIGKILL)) == undisturbed


@pytest.mark.filterwarnings("ignore:DEPRECATED. TrainingClient.load_state:FutureWarning")  # there is one model only
def test_weights_are_saved_loaded_and_sampled_by_the_client(whole):
    with tinker.ServiceClient(base_url=whole.url, api_key=whole.key) as service:
        client = service.create_lora_training_client(str(whole.base), rank=0).result()
        client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=0.01)).result()
        state = client.save_state("s").result().path
        mine = scored(client)
        sampler = client.save_weights_and_get_sampling_client().result()
        its = sampler.compute_logprobs(types.ModelInput.from_ints(EXAMPLES[1])).result()
        np.testing.assert_allclose(its[1:], mine, atol=1e-4)
        before = service.create_sampling_client(base_model=str(whole.base)).result()
        plain = before.compute_logprobs(types.ModelInput.from_ints(EXAMPLES[1])).result()
        assert np.abs(np.subtract(plain[1:], mine)).max() > 1e-2
        client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=0.01)).result()
        assert scored(client) != mine
        client.load_state(state).result()
        assert scored(client) == mine
    del service, client, sampler, before
    gc.collect()  # closes its sockets here, where Python's warning of them is expected


def scored(client):
    output = client.forward([datum(EXAMPLES[1])], "cross_entropy").result()
    return output.loss_fn_outputs[0]["logprobs"].data


@pytest.mark.thorough
def test_a_rank_that_is_killed_ends_all_and_they_go_on_with_the_same_bits(ranks, hand, plain):
    first = ranks.engine("trainer")
    assert trained(hand(ranks), lambda: os.kill(ranks.second(), signal.SIGKILL)) == plain
    assert ranks.engine("trainer") != first


@pytest.mark.thorough
def test_the_first_rank_that_is_killed_takes_the_others_with_it(ranks, hand, plain):
    gone = []

    def disturb():
        gone.append(ranks.second())
        os.kill(ranks.engine("trainer"), signal.SIGKILL)

    assert trained(hand(ranks), disturb) == plain
    assert ranks.second() not in gone
    assert not Path(f"/proc/{gone[0]}").exists()


@pytest.mark.thorough
def test_a_rank_that_stands_still_is_ended_after_a_time_and_nothing_hangs(ranks, hand, plain):
    stopped = []

    def disturb():
        stopped.append(ranks.second())
        os.kill(stopped[0], signal.SIGSTOP)

    assert trained(hand(ranks), disturb) == plain
    assert not Path(f"/proc/{stopped[0]}").exists()
