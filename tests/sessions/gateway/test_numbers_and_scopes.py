"""What a number stands for once, and what a key with few scopes may end."""

from __future__ import annotations

import httpx
import pytest

from tests.sessions.hand import Hand


@pytest.fixture
def one(shared, hand):
    return hand(shared)


@pytest.fixture
def only(shared, request):
    """Return clients of the same tenant with a key of one scope."""
    made = []

    def make(scope):
        key = shared.run("keys", "create", "team-a", "--scopes", scope).strip()
        made.append(httpx.Client(base_url=f"{shared.url}/api/v1/", headers={"X-API-Key": key}, timeout=60))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_number_of_a_sampling_session_stands_for_one(one):
    one.create()
    path = one.result(
        one.post("save_weights_for_sampler", {"model_id": one.model, "seq_id": 1, "path": "a"})["request_id"]
    )
    asked = {"session_id": one.session, "sampling_session_seq_id": 5}
    first = one.post("create_sampling_session", {**asked, "model_path": path["path"]})
    assert one.post("create_sampling_session", {**asked, "model_path": path["path"]}) == first
    answer = one.post("create_sampling_session", {**asked, "base_model": one.base}, expect=409)
    assert "take the next one" in answer["detail"]
    taken = {"model_id": one.model, "seq_id": 2, "sampling_session_seq_id": 5}
    failed = one.result(one.post("save_weights_for_sampler", taken)["request_id"])
    assert (failed["category"], "take the next number" in failed["error"]) == ("user", True)


def test_a_key_that_cannot_train_ends_no_training(one, only):
    one.create()
    end = {"reason": {"type": "success"}}
    for scope in ("read", "sample"):
        answer = only(scope).post(f"sessions/{one.session}/finish", json=end)
        assert (answer.status_code, "no scope train" in answer.json()["detail"]) == (403, True)
    assert one.result(one.optim(1))["metrics"]["steps:sum"] == 1
    one.post("unload_model", {"model_id": one.model})
    assert only("read").post(f"sessions/{one.session}/finish", json=end).status_code == 204


def test_a_key_that_cannot_sample_cancels_no_sample(one, only):
    body = {"request_id": f"{one.session}:sample:0:1"}
    assert only("read").post("cancel_future", json=body).status_code == 403
    assert only("sample").post("cancel_future", json=body).status_code == 204


def test_what_is_said_of_models_and_weights_is_bounded(one):
    large = {"n": "x" * 70_000}
    made = {"session_id": one.session, "model_seq_id": 0, "base_model": one.base, "lora_config": {"rank": 4}}
    assert "65536 bytes" in one.post("create_model", {**made, "user_metadata": large}, expect=422)["detail"]
    saved = {"model_id": one.model, "seq_id": 1, "path": "a", "user_metadata": large}
    assert "65536 bytes" in one.post("save_weights", saved, expect=422)["detail"]


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 10**30])
def test_a_seed_that_no_engine_can_take_is_refused(one, seed):
    lora = {"rank": 4, "seed": seed}
    made = {"session_id": one.session, "model_seq_id": 0, "base_model": one.base, "lora_config": lora}
    assert one.post("create_model", made, expect=422)["detail"].startswith("lora_config.seed")


def test_a_model_that_is_unloaded_while_it_trains_ends_its_requests_and_its_future(shared):
    one = Hand(shared)
    one.create()
    waiting = [one.optim(number) for number in range(3, 6)]  # 1 and 2 never come
    assert one.result(one.post("unload_model", {"model_id": one.model})["request_id"])["type"] == "unload_model"
    states = {one.result(each).get("category", "done") for each in waiting}
    assert states <= {"user", "done"}
    one.http.close()
