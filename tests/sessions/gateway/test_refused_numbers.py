"""A request that is refused when it comes has taken its number all the same."""

from __future__ import annotations

import pytest
import tinker
import zstandard
from tinker import types

from muster.sessions.wire import steps
from muster.sessions.wire.schema import messages
from tests.sessions.hand import PROTOBUF, datum


def wide():
    """Return a datum of few bytes that would be large when it is unpacked."""
    rows = {"sparse_crow_indices": [0, 1], "sparse_col_indices": [0], "shape": [1, 1 << 27]}
    weights = types.TensorData(data=[1.0], dtype="float32", **rows)
    return types.Datum(types.ModelInput.from_ints([1]), {"target_tokens": [[2]], "weights": weights})


def sent(hand, seq, body, **headers):
    answer = hand.http.post("/api/v1/forward_backward", content=body, headers=PROTOBUF | headers)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"request_id": f"{hand.model}:{seq}", "model_id": hand.model}
    return answer.json()["request_id"]


def test_a_client_is_told_of_a_chunk_that_is_refused_and_goes_on(shared):
    with tinker.ServiceClient(base_url=shared.url, api_key=shared.key) as service:
        client = service.create_lora_training_client(base_model=str(shared.base), rank=4, seed=3).result()
        data = [datum([1, 2, 3])] * 1024 + [wide()]  # the client sends 1024 at a time
        failed, after = (client.forward_backward(each, "cross_entropy") for each in (data, data[:1]))
        with pytest.raises(tinker.RequestFailedError, match="its tensors have more than 33554432 values") as raised:
            failed.result(timeout=100)
        assert raised.value.category == "user"
        assert after.result(timeout=100).metrics["loss:sum"] > 0


@pytest.mark.parametrize("compressed", [False, True])
def test_a_pass_that_is_too_large_fails_under_its_number(shared, hand, compressed):
    one = hand(shared)
    one.create()
    body = messages.ForwardBackwardRequest(model_id=one.model, seq_id=1, loss_fn="x").SerializeToString()
    body += b"\x22\xff\xff\xff\x1f" + b"x" * (1 << 26)  # a name of a loss
    if compressed:
        body = zstandard.ZstdCompressor().compress(body)
    again = [sent(one, 1, body, **({"Content-Encoding": "zstd"} if compressed else {})) for _ in range(2)]
    one.result(one.step(2, [datum([1, 2, 3])]))
    answer = one.result(again[1])
    assert (answer["category"], "the body has more than 67108864 bytes" in answer["error"]) == ("user", True)


def test_a_refused_pass_gives_up_no_number_before_it(shared, hand):
    one = hand(shared)
    one.create()
    refused = one.step(2, [wide()])
    first = one.result(one.step(1, [datum([1, 2, 3])]))
    assert first.metrics["loss:sum"] > 0
    assert one.result(refused)["category"] == "user"


@pytest.mark.parametrize("body", [b"", b"\xff" * 9, b"\x10\x02", b"\x0a\x7f", b"\x0a\x01a\x10\x80", b"\x1a\0" * 99])
def test_a_pass_that_begins_with_no_model_and_number_is_refused_as_before(shared, hand, body):
    assert steps.named(body) is None
    one = hand(shared)
    answer = one.http.post("/api/v1/forward_backward", content=body, headers=PROTOBUF)
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("optim_step", {"adam_params": {"learning_rate": -1}}),
        ("optim_step", {"adam_params": {"learning_rate": 1e300}}),
        ("optim_step", {"optimizer_params": {"type": "muon"}}),
        ("save_weights", {"path": "a", "ttl_seconds": 5}),
        ("save_weights_for_sampler", {}),
        ("save_weights_external", {"path": "a", "age_encryption_recipients": ["b"]}),
        ("load_weights", {"path": "a", "optimizer": False, "weights_access_token": "b"}),
    ],
)
def test_passes_go_on_at_once_after_a_request_that_was_refused(shared, hand, route, body):
    one = hand(shared)
    one.create()
    asked = {"model_id": one.model, "seq_id": 1, **body}
    first = one.post(route, asked, expect=422)
    assert one.post(route, asked, expect=422) == first
    one.result(one.step(2, [datum([1, 2, 3])]))
    kept = one.poll(f"{one.model}:1").json()
    assert (kept["error"], kept["category"]) == (first["detail"], "user")


def test_a_number_that_was_used_keeps_its_result_when_nonsense_comes_under_it(shared, hand):
    one = hand(shared)
    one.create()
    before = one.result(one.step(1, [datum([1, 2, 3])]))
    asked = {"model_id": one.model, "seq_id": 1, "adam_params": {"learning_rate": -1}}
    one.post("optim_step", asked, expect=422)
    assert one.result(f"{one.model}:1").metrics == before.metrics


@pytest.mark.parametrize("address", [{"model_id": 3}, {"model_id": "nobody:train:0", "seq_id": 1}, {"seq_id": True}])
def test_nonsense_without_a_model_is_refused_as_before(shared, hand, address):
    one = hand(shared)
    one.create()
    asked = {"model_id": one.model, "seq_id": 1, "adam_params": {"learning_rate": -1}, **address}
    one.post("optim_step", asked, expect=422)
