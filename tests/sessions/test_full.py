"""Full fine-tuning through the Gateway: how a client asks for it, and what is refused."""

from __future__ import annotations

import gc
import os
import signal

import numpy as np
import pytest
import tinker
from tinker import types

from muster.sessions.engines import names
from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum

EXAMPLES = [[1, 2, 3], [2, 3, 4, 5], [7, 8, 1]]


@pytest.fixture
def full(tmp_path):
    made = Gateway(tmp_path)
    made.ENGINES = ("--full", *Gateway.ENGINES)
    with made:
        yield made


@pytest.fixture
def service(full):
    with tinker.ServiceClient(base_url=full.url, api_key=full.key) as made:
        yield made
    del made
    gc.collect()  # closes its sockets here, where Python's warning of them is expected


def test_a_client_asks_for_all_weights_by_rank_0_and_trains_them(service, full, hand):
    client = service.create_lora_training_client(str(full.base), rank=0, seed=3).result()
    info = client.get_info()
    assert (info.is_lora, info.lora_rank) == (False, None)
    client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy").result()
    assert client.optim_step(types.AdamParams(learning_rate=0.1)).result().metrics["grad_norm:mean"] > 0
    path = client.save_state("whole").result().path
    one = hand(full)
    for found in (
        one.post("weights_info", {"tinker_path": path}),
        one.http.get("/api/v1/training_runs").json()["training_runs"][0],
    ):
        assert (found["is_lora"], found["lora_rank"]) == (False, None)
    before = _thought(client)
    client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy").result()
    client.optim_step(types.AdamParams(learning_rate=0.1)).result()
    with pytest.warns(FutureWarning, match="load_state"):
        client.load_state(path).result()
    np.testing.assert_array_equal(_thought(client), before)


def _thought(client):
    return client.forward([datum([1, 2, 3, 4])], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data


def test_a_second_model_is_refused_until_the_first_is_over_although_no_engine_holds_it(full, hand):
    first, second = hand(full), hand(full)
    asked = {"model_seq_id": 0, "base_model": first.base}
    assert first.result(first.post("create_model", {**asked, "session_id": first.session})["request_id"])
    os.kill(full.engine("trainer"), signal.SIGKILL)
    asked["session_id"] = second.session
    assert "of one model at a time" in second.post("create_model", asked, expect=422)["detail"]
    assert first.logprobs(1, [1, 2, 3])
    first.post(f"sessions/{first.session}/finish", {"reason": {"type": "success"}}, expect=204)
    assert second.result(second.post("create_model", asked)["request_id"])["model_id"] == second.model


def test_a_model_without_a_lora_config_is_one_of_all_weights(full, hand):
    one = hand(full)
    asked = {"session_id": one.session, "model_seq_id": 0, "base_model": str(full.base)}
    assert one.result(one.post("create_model", asked)["request_id"])["model_id"] == one.model
    assert one.post("get_info", {"model_id": one.model})["is_lora"] is False


def _create(one, lora):
    body = {"session_id": one.session, "model_seq_id": 0, "base_model": one.base, "lora_config": lora}
    return one.post("create_model", body, expect=422)["detail"]


def test_an_adapter_is_refused_where_all_weights_are_trained(full, hand):
    assert "rank: 8: all weights are trained here; pass rank=0" in _create(hand(full), {"rank": 8})


def test_all_weights_are_refused_where_adapters_are_trained(shared, hand):
    assert "ask for a Gateway with --full" in _create(hand(shared), {"rank": 0})
    assert "ask for a Gateway with --full" in _create(hand(shared), None)


@pytest.mark.parametrize(("name", "full"), [("whole", False), ("transformers", True), ("vllm", True)])
def test_a_sampler_that_does_not_read_what_is_trained_is_refused(name, full):
    with pytest.raises(ValueError, match=f"--sampler: {name}: whole reads what --full trains"):
        names.sampler(name, full=full)


def test_the_sampler_by_default_is_the_one_for_what_is_trained():
    assert names.sampler(None) == names.SAMPLERS["transformers"]
    assert names.sampler(None, full=True) == names.SAMPLERS["whole"]


@pytest.mark.parametrize(
    ("given", "full", "ranks", "text"),
    [
        (None, False, 2, "--ranks: 2: all weights are trained on several, and nothing else: pass --full alone"),
        ("my.own:Trainer", True, 2, "--ranks: 2: all weights are trained on several"),
        (None, True, 0, "--ranks: 0: pass 1 to 64"),
        (None, True, 65, "--ranks: 65: pass 1 to 64"),
    ],
)
def test_ranks_of_what_one_process_trains_are_refused(given, full, ranks, text):
    with pytest.raises(ValueError, match=text):
        names.trainer(given, full=full, ranks=ranks)


def test_ranks_are_told_to_the_trainer_of_all_weights():
    assert names.trainer(None, full=True, ranks=2) == (names.RANKS, ("ranks=2",))
    assert names.trainer(None, full=True, ranks=1) == (names.WHOLE_TRAINER, ())
    assert names.trainer(None, full=False, ranks=1) == (None, ())
