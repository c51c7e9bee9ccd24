"""A request that is refused when it comes has taken its number all the same."""

from __future__ import annotations

import pytest

from tests.sessions.hand import datum


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
