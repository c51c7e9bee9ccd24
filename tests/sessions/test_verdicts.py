"""A sampler that answers from other weights than it is asked for ends a run with a verdict; another does not."""

from __future__ import annotations

import contextlib
import sqlite3
import time

from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum

LESSON = [1, 2, 3, 4, 5, 6, 7, 8]
VERDICT = "the sampler answers from other weights than those it was asked for"


class Run:
    """Trains and samples from what it has."""

    def __init__(self, own):
        self.own, self._seq, self._samplers, self._asked = own, 0, 0, 0
        own.create()

    def _next(self):
        self._seq += 1
        return self._seq

    def learn(self):
        for _ in range(3):
            self.own.result(self.own.step(self._next(), [datum(LESSON)] * 4))
            self.own.result(self.own.optim(self._next(), rate=1.0))

    def sampler(self):
        """Return a sampling session of the weights as they are."""
        asked = {"model_id": self.own.model, "seq_id": self._next(), "sampling_session_seq_id": self._samplers}
        self._samplers += 1
        saved = self.own.result(self.own.post("save_weights_for_sampler", asked)["request_id"])
        return saved["sampling_session_id"]

    def sample(self, sampler):
        """Return what a sample came to: None, or how it failed."""
        self._asked += 1
        asked = {
            "sampling_session_id": sampler,
            "seq_id": self._asked,
            "prompt": {"chunks": [{"tokens": [1], "type": "encoded_text"}]},
            "sampling_params": {"max_tokens": 7, "seed": self._asked},
            "num_samples": 4,
        }
        id_ = self.own.post("asample", asked)["request_id"]
        while True:
            answer = self.own.poll(id_)
            assert answer.status_code == 200, answer.text
            if "protobuf" in answer.headers["content-type"]:
                return None
            if answer.json().get("type") != "try_again":
                return answer.json()


def test_a_sampler_that_answers_from_its_first_weights_ends_the_run_with_a_verdict(tmp_path, hand, monkeypatch):
    monkeypatch.setattr(Gateway, "ENGINES", (*Gateway.ENGINES[:2], "--sampler", "tests.sessions.stale:Sampler"))
    with Gateway(tmp_path) as gateway:
        run = Run(hand(gateway))
        first = run.sampler()
        assert run.sample(first) is None
        run.learn()
        second = run.sampler()
        deadline = time.monotonic() + 60
        while (failed := run.sample(second)) is None:
            assert time.monotonic() < deadline, "it samples on and on"
        assert VERDICT in failed["error"]
        assert failed["category"] == "server"
        assert run.sample(second)["error"] == failed["error"]
        assert run.sample(first) is None  # of which it told the truth
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal:
        events = journal.execute("SELECT tenant FROM events WHERE event = 'sampler_lied'").fetchall()
    assert events == [("team-a",)]


def test_a_sampler_that_tells_the_truth_samples_from_each_version(tmp_path, hand):
    with Gateway(tmp_path) as gateway:
        run = Run(hand(gateway))
        for _ in range(3):
            sampler = run.sampler()
            assert [run.sample(sampler) for _ in range(10)] == [None] * 10
            run.learn()
        log = (tmp_path / "gateway-one.log").read_text()
        assert VERDICT not in log
        assert "nothing is known" not in log
