"""Which steps share passes, and what they do to each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tinker.proto import tinker_public_pb2

from muster.sessions.engines.turns import ALONE, Turns
from muster.sessions.refusals import Refused
from muster.sessions.seam import Outputs
from muster.sessions.tenancy import Share

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


def body(data=1, tokens=2):
    message = tinker_public_pb2.ForwardBackwardRequest(loss_fn="cross_entropy")
    for _ in range(data):
        message.data.add().model_input.add().encoded_text.tokens = np.zeros(tokens, "<i4").tobytes()
    return message.SerializeToString()


@pytest.fixture
def together():
    """Run steps that wait at the same time; a model `TENANT/NAME` is that tenant's, and one without is of its own."""
    trainer, gate = Recorder(), threading.Event()
    with ThreadPoolExecutor(1) as thread:
        turns = Turns(trainer, thread)

        def run(*asked):
            gate.clear()
            thread.submit(gate.wait, WAIT)
            answers = [turns.step(Share(model.partition("/")[0]), model, data, *rest) for model, data, *rest in asked]
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
    assert calls == [["a", "d"], ["b"], ["c", "[0,[]]"]]


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


def test_groups_are_bounded_in_models(together):
    _, calls = together(*[(f"m{number}", body()) for number in range(20)])
    assert [len(each) for each in calls] == [16, 4]


def test_groups_are_bounded_in_data(together):
    _, calls = together(("us/a", body(300)), ("us/b", body(200)), ("us/c", body(100)))
    assert calls == [["us/a", "us/b"], ["us/c"]]


def test_a_tenant_who_is_alone_has_as_many_models_in_a_pass_as_fit(together):
    _, calls = together(*[(f"us/{number}", body(4, 512)) for number in range(16)])
    assert [len(each) for each in calls] == [16]


def test_a_step_waits_for_one_pass_of_each_other_tenant_however_many_models_these_have(together):
    flood = [(f"{tenant}/{number}", body(1, 300)) for number in range(50) for tenant in ("a", "b", "c")]
    _, calls = together(*flood, ("victim/x", body(1, 300)))
    before = next(number for number, each in enumerate(calls) if "victim/x" in each)
    passed = [model.partition("/")[0] for each in calls[:before] for model in each]
    assert sorted(passed) == ["a", "b", "c"]


def test_steps_of_another_tenant_make_a_pass_longer_by_a_quarter_at_most(together):
    _, calls = together(("victim/x", body(16, 64)), *[(f"flood/{number}", body(2, 64)) for number in range(16)])
    assert calls[0][0] == "victim/x"
    assert len(calls[0]) - 1 == 256 / 128


def test_a_long_row_does_not_make_those_of_another_tenant_as_long(together):
    _, calls = together(("victim/x", body(16, 32)), ("flood/a", body(1, 128)))
    assert calls == [["victim/x"], ["flood/a"]]


def test_small_steps_of_many_tenants_share_a_pass(together):
    _, calls = together(*[(f"{tenant}/x", body(4, 32)) for tenant in range(8)])
    assert [len(each) for each in calls] == [8]


def test_what_is_not_a_step_takes_its_turn_as_well():
    turned, gate = [], threading.Event()
    with ThreadPoolExecutor(1) as thread:
        turns = Turns(Recorder(), thread)
        thread.submit(gate.wait, WAIT)
        for number in range(20):
            turns.do(Share("flood"), f"model {number}", lambda: turned.append("flood"))
        last = turns.do(Share("victim"), "model", lambda: turned.append("victim"))
        gate.set()
        last.result(WAIT)
    assert turned.index("victim") == 1
