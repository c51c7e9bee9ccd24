"""Some attacks on real sockets, the same in each run: `python -m tests.fuzz --part webhook` makes more."""

from __future__ import annotations

import pytest

from tests.fuzz.wire import rules, runs
from tests.fuzz.wire.attacks import Attack
from tests.fuzz.wire.clients import Answer, Outcome

_COUNT = 60


@pytest.mark.parametrize("kind", runs.KINDS)
async def test_whatever_comes_over_a_socket_is_answered_or_ended_while_others_are_answered(kind):
    report = await runs.run(kind, "make test", 0, _COUNT)
    assert not report.faults, "\n".join(report.faults.values())
    assert sum(report.attacks.values()) == _COUNT
    assert report.probes > 5


def test_an_attack_is_the_same_each_time():
    for kind in runs.KINDS:
        made, again = ([runs.draw(kind, "a", number) for number in range(50)] for _ in range(2))
        assert made == again
        assert len({one.name for one in made}) > 20


TOKEN = "hf_IpNP5oi2JnOL2P3jcNAG5OXWL2sQPTNN4U"
PLAIN = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n"


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(stalled=True, ended=True), "within a minute"),
        (Outcome(), "stayed open"),
        (Outcome(answers=[Answer(400, PLAIN, b"no\n")] * 2), "2 answers"),
        (Outcome(raw=TOKEN.encode()[:14], ended=True), "repeats a secret"),
        (Outcome(answers=[Answer(500, PLAIN, b"no\n")]), "HTTP 500"),
        (Outcome(answers=[Answer(0, b"HTTP/2.0 200")]), "HTTP 0"),
        (Outcome(answers=[Answer(400, PLAIN, b"no:\n  ^")]), "in one sentence"),
        (Outcome(answers=[Answer(200, b"Server: aiohttp/3", b"")]), "made with"),
    ],
)
def test_each_fault_of_an_answer_is_seen(outcome, said):
    (fault,) = rules.of_one(Attack("a", (b"",), secret=TOKEN), outcome)
    assert said in fault


@pytest.mark.parametrize("answers", [[], [(400, "")], [(200, "u2")], [(200, "u1"), (200, "u1")]])
def test_a_review_without_the_answer_to_its_uid_is_seen(answers):
    told = [
        Answer(status, b"Content-Type: application/json", b'{"response":{"uid":"%s"}}' % uid.encode())
        for status, uid in answers
    ]
    one = Attack("a", (b"",), requests=2, reviews=("u1",))
    assert any("asked ['u1']" in fault for fault in rules.of_one(one, Outcome(answers=told, ended=True)))
