"""Steps of several models in one pass, through the Gateway and through the end of the trainer."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from muster.sessions.seam import Adam, Datum, Lora, Step
from tests.sessions import bigram
from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum
from tests.sessions.test_order import EXAMPLES, PROBE


@pytest.fixture
def sharing(tmp_path, monkeypatch):
    engines = ("--trainer", "tests.sessions.bigram:Sharing", "--sampler", "tests.sessions.bigram:Sampler")
    monkeypatch.setattr(Gateway, "ENGINES", engines)
    with Gateway(tmp_path) as made:
        yield made


def _until_held(gateway):
    deadline = time.monotonic() + 120
    while not (gateway.base / "held").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _until_waiting(gateway, count):
    """Wait until so many steps are in the trainer and have not begun."""
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(gateway.folder / "run" / "trainer.sock"))) as engine:
        deadline = time.monotonic() + 120
        while engine.get("http://engine/state", timeout=60).json()["waiting"] < count:
            assert time.monotonic() < deadline


def _expected(shared, example):
    """Return what a model thinks after one step, in company or alone, and an optimizer step."""
    alone = bigram.Sharing(Path("nowhere"))
    alone.create("m", Lora(rank=4, seed=7))
    if shared > 1:
        alone.again("m", _step(example), str(shared))
    else:
        alone.step("m", _step(example))
    alone.optim("m", Adam(learning_rate=0.1))
    return alone.step("m", replace(_step(PROBE), forward_only=True)).logprobs[0].tolist()


def _step(tokens):
    inputs = {"target_tokens": np.array(tokens[1:]), "weights": np.ones(len(tokens) - 1, np.float32)}
    return Step("cross_entropy", {}, [Datum(np.array(tokens[:-1]), inputs)])


@pytest.mark.parametrize("killed", [False, True])
def test_steps_that_shared_a_pass_are_the_same_after_a_trainer_that_was_killed(sharing, hand, killed):
    hands = [hand(sharing) for _ in EXAMPLES]
    for each in hands:
        each.create()
    (sharing.base / "gate").touch()
    first = hands[0].step(1, [datum(EXAMPLES[0])])
    _until_held(sharing)
    rest = [one.step(1, [datum(example)]) for one, example in zip(hands[1:], EXAMPLES[1:], strict=True)]
    _until_waiting(sharing, len(rest))
    (sharing.base / "gate").unlink()
    results = [one.result(id_) for one, id_ in zip(hands, [first, *rest], strict=True)]
    shared = [int(each.metrics.get("shared:sum", 1)) for each in results]
    assert max(shared) > 1
    if killed:
        os.kill(sharing.engine("trainer"), signal.SIGKILL)
    for one, count, example in zip(hands, shared, EXAMPLES, strict=True):
        one.result(one.optim(2))
        assert one.logprobs(3, PROBE) == _expected(count, example)
