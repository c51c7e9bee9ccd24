"""Which steps share passes, and what they do to each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tinker.proto import tinker_public_pb2

from sessions.engines.turns import ALONE, Turns
from sessions.refusals import Refused
from sessions.seam import Outputs

WAIT = 120


class Recorder:
    """A trainer that shares, and tells with whom; models named `bad` fail in company, `worse` always."""

    def __init__(self):
        self.calls = []

    def step(self, model, step):
        self.calls.append([model])
        if model == "worse":
            raise RuntimeError("out of memory")
        if model == "refused":
            raise Refused("no")
        return Outputs([np.zeros(len(step.data), np.float32)], {})

    def again(self, model, _step, layout):
        self.calls.append([model, layout])
        return Outputs([], {})

    def steps(self, work):
        self.calls.append([model for model, _ in work])
        if any(model in {"bad", "worse"} for model, _ in work):
            raise RuntimeError("out of memory")
        return [Refused("no") if model == "refused" else (Outputs([], {}), "layout") for model, _ in work]

    def _not_asked(self, *_):
        raise AssertionError

    create = optim = save = load = unload = _not_asked


def body(data=1):
    message = tinker_public_pb2.ForwardBackwardRequest(loss_fn="cross_entropy")
    for _ in range(data):
        message.data.add().model_input.add().encoded_text.tokens = np.zeros(2, "<i4").tobytes()
    return message.SerializeToString()


@pytest.fixture
def together():
    """Run steps that wait at the same time."""
    trainer, gate = Recorder(), threading.Event()
    with ThreadPoolExecutor(1) as thread:
        turns = Turns(trainer, thread)

        def run(*asked):
            gate.clear()
            thread.submit(gate.wait, WAIT)
            answers = [turns.step(model, data, *layout) for model, data, *layout in asked]
            assert turns.waiting == len(asked)
            gate.set()
            return [each.exception(WAIT) or each.result() for each in answers], trainer.calls

        yield run
        gate.set()


def test_steps_of_models_that_wait_share_passes(together):
    answers, calls = together(("a", body()), ("b", body()), ("c", body()))
    assert calls == [["a", "b", "c"]]
    assert [layout for _, layout in answers] == ["layout"] * 3


def test_a_step_alone_has_no_layout(together):
    answers, calls = together(("a", body()))
    assert (calls, answers[0][1]) == ([["a"]], None)


def test_a_step_that_runs_again_shares_nothing(together):
    _, calls = together(("a", body()), ("b", body(), ALONE), ("c", body(), "[0,[]]"), ("d", body()))
    assert calls == [["b"], ["c", "[0,[]]"], ["a", "d"]]


def test_two_steps_of_one_model_keep_their_order_and_do_not_meet(together):
    _, calls = together(("a", body()), ("b", body()), ("a", body()))
    assert calls == [["a", "b"], ["a"]]


def test_a_failure_in_company_fails_only_the_model_that_fails_alone(together):
    answers, calls = together(("a", body()), ("worse", body()), ("bad", body()))
    assert calls[1:] == [["a"], ["worse"], ["bad"]]
    assert [isinstance(each, RuntimeError) for each in answers] == [False, True, False]


def test_a_refusal_and_a_body_that_is_none_leave_the_others_alone(together):
    answers, calls = together(("a", body()), ("refused", body()), ("torn", b"\xff"), ("b", body()))
    assert calls == [["a", "refused", "b"]]
    assert [isinstance(each, Refused) for each in answers] == [False, True, True, False]


def test_groups_are_bounded_in_models_and_in_data(together):
    _, calls = together(*[(f"m{number}", body()) for number in range(20)])
    assert [len(each) for each in calls] == [16, 4]
    calls.clear()
    together(("a", body(300)), ("b", body(200)), ("c", body(100)))
    assert calls == [["a", "b"], ["c"]]
