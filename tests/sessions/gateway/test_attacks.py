"""A small number of attacks by bytes; `python -m tests.fuzz.gateway` runs more."""

from __future__ import annotations

import asyncio

import pytest

from tests.fuzz.gateway import __main__ as fuzz
from tests.fuzz.gateway import judging, worlds
from tests.fuzz.gateway.wire import Answer, Sent

COUNT = 120
REFUSAL = b'{"detail": "send less"}'
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with worlds.World(tmp_path_factory.mktemp("attacked")) as made:
        yield made


def test_attacks_are_refused_and_another_tenant_is_answered_meanwhile(world):
    results = asyncio.run(fuzz.attacked(world, "sessions", range(COUNT)))
    assert [(number, faults) for number, faults in results if faults] == []
    assert world.state() == []
    assert world.settled() == []
    assert {200, 400, 401, 404, 422} <= set(world.statuses)
    assert world.accepted


def test_each_attack_is_drawn_and_drawn_alike_again(world):
    drawn = {attack.__name__ for attack, _ in (worlds.drawn("sessions", number) for number in range(500))}
    assert drawn == {attack.__name__ for attack in worlds.ATTACKS}
    for number in range(60):
        (attack, rng), (_, again) = worlds.drawn("s", number), worlds.drawn("s", number)
        assert attack(rng, world, 5) == attack(again, world, 5)


@pytest.mark.parametrize(
    ("sent", "answers", "fault"),
    [
        (Sent([]), [Answer(500, JSON, b'{"detail": "the Gateway failed"}')], "status 500"),
        (Sent([]), [Answer(502, JSON, REFUSAL)], "status 502"),
        (Sent([]), [Answer(101, {})], "status 101"),
        (Sent([]), [Answer(400, JSON, b'{"detail": ""}')], "without a sentence"),
        (Sent([]), [Answer(400, {}, b"Traceback (most recent call last)")], "without a sentence"),
        (Sent([], statuses=frozenset({404})), [Answer(200, JSON, b"{}")], "is none of [404]"),
        (Sent([]), [Answer(200, JSON, b"{}")] * 2, "2 answers to 1"),
        (Sent([], most=2), [Answer(200, JSON, b"{}")], "1 answers of 2"),
        (Sent([]), [Answer(200, JSON, b'{"key": "secret"}')], "tells a secret"),
        (Sent([]), [Answer(200, {"x": "secret"})], "tells a secret"),
    ],
)
def test_what_is_wrong_with_an_answer_is_told(sent, answers, fault):
    (told,) = judging.faults(sent, answers, closed=False, secrets=["secret"])
    assert fault in told


def test_what_is_as_it_should_be_is_no_fault():
    refused = [Answer(422, JSON, REFUSAL), Answer(503, JSON, REFUSAL), Answer(400, {}, b"not HTTP")]
    assert list(judging.faults(Sent([], most=3), refused, closed=False, secrets=["secret"])) == []
    assert list(judging.faults(Sent([]), [], closed=True, secrets=[])) == []
