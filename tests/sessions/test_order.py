from __future__ import annotations

import pytest

from tests.sessions.hand import datum

pytestmark = pytest.mark.parametrize("shared", ["sqlite", "postgresql"], indirect=True)
PROBE = [1, 2, 3, 4, 5, 6, 7, 8]
EXAMPLES = [[1, 2, 3], [2, 3, 4, 5], [7, 8, 1], [3, 1, 2, 2], [5, 6]]


def in_order(one):
    """Return the weights after the examples, sent one after the other."""
    one.create()
    for seq, each in enumerate(EXAMPLES, 1):
        one.result(one.step(seq, [datum(each)]))
    one.result(one.optim(6))
    return one.logprobs(7, PROBE)


def test_chunks_that_arrive_in_any_order_make_one_batch(shared, hand):
    one = hand(shared)
    one.create()
    ids = [one.step(seq, [datum(EXAMPLES[seq - 1])]) for seq in (3, 5, 4, 2, 1)]
    assert all(one.result(each).metrics["loss:sum"] > 0 for each in ids)
    one.result(one.optim(6))
    assert one.logprobs(7, PROBE) == in_order(hand(shared))


def test_one_batch_is_the_sum_of_its_datums(shared, hand):
    one = hand(shared)
    one.create()
    one.result(one.step(1, [datum(each) for each in EXAMPLES]))
    one.result(one.optim(2))
    assert one.logprobs(3, PROBE) == in_order(hand(shared))


def test_a_request_that_is_sent_three_times_gives_one_gradient(shared, hand):
    one = hand(shared)
    one.create()
    for seq, each in enumerate(EXAMPLES, 1):
        ids = {one.step(seq, [datum(each)]) for _ in range(3)}
        assert len(ids) == 1
        one.result(ids.pop())
    again = one.step(2, [datum(EXAMPLES[1])])
    first, last = one.optim(6), one.optim(6)
    assert (first, one.result(again).metrics["loss:sum"] > 0) == (last, True)
    one.result(first)
    assert one.logprobs(7, PROBE) == in_order(hand(shared))


def test_a_number_that_was_used_for_another_request_is_refused(shared, hand):
    one = hand(shared)
    one.create()
    one.result(one.step(1, [datum(EXAMPLES[0])]))
    one.step(1, [datum(EXAMPLES[1])], expect=409)
    one.optim(1, expect=409)


def test_a_gap_is_given_up_when_an_optimizer_step_follows_it(shared, hand):
    one = hand(shared)
    one.create()
    first = one.step(1, [datum(EXAMPLES[0])])
    third = one.step(3, [datum(EXAMPLES[2])])
    assert one.result(one.optim(4))["metrics"]["steps:sum"] == 1
    assert one.result(first).metrics
    assert one.result(third).metrics
    late = one.result(one.step(2, [datum(EXAMPLES[1])]))
    assert late["category"] == "server"
    assert "gone on without it" in late["error"]


def test_what_the_engine_refuses_is_a_failure_of_the_user_and_spoils_nothing(shared, hand):
    one = hand(shared)
    one.create()
    one.post("save_weights", {"model_id": one.model, "seq_id": 1, "path": "../escape"})
    refused = one.result(f"{one.model}:1")
    assert refused["category"] == "user"
    assert "is not a name of weights" in refused["error"]
    assert one.result(one.step(2, [datum(EXAMPLES[0])])).metrics["loss:sum"] > 0


def test_two_models_on_one_base_leave_each_other_alone(shared, hand):
    left, right = hand(shared), hand(shared)
    left.create()
    right.create()
    before = right.logprobs(1, PROBE)
    left.result(left.step(1, [datum(EXAMPLES[0])]))
    left.result(left.optim(2))
    assert right.logprobs(2, PROBE) == before


@pytest.mark.parametrize(
    "route",
    [
        "create_session",
        "create_model",
        "session_heartbeat",
        "optim_step",
        "join_sampling_session",
        "asample",
        "retrieve_future",
        "cancel_future",
        "weights_info",
        "forward_backward",
    ],
)
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"], ids=["torn", "a list", "no text"])
def test_a_body_that_is_not_what_the_route_takes_is_refused_with_a_sentence(shared, hand, route, content):
    answer = hand(shared).http.post(f"/api/v1/{route}", content=content)
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)
