"""One run with everything that a client asks for, in bursts, so that something can happen in the middle of each.

The answers of a run that was disturbed are compared with those of one that was not: to the bit where weights are told.
"""

from __future__ import annotations

import time

import httpx
import orjson

from muster.sessions.wire.schema import messages
from tests.sessions.hand import PROTOBUF, Hand, datum

PROBE = [1, 2, 3, 4, 5, 6, 7, 8]
EXAMPLES = [[1, 2, 3], [2, 3, 4, 5], [7, 8, 1], [3, 1, 2, 2], [5, 6]]
_DEADLINE = 900  # seconds, for machines on which torch takes minutes to be imported


class Errands(Hand):
    """Requests that are sent again until they are accepted, as the client does."""

    def __init__(self, gateway):
        self._answers, self._next = [], {}
        super().__init__(gateway)
        send, self._ids = self.http.send, []

        def insist(request, **options):
            deadline = time.monotonic() + _DEADLINE
            while True:
                try:
                    return send(request, **options)
                except httpx.TransportError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)

        self.http.send = insist

    def bursts(self):
        """Return lists of calls, each of which sends one request and returns its id."""
        made = {"session_id": self.session, "base_model": self.base}
        lora = {"rank": 4, "seed": 7, "train_unembed": True, "train_mlp": True, "train_attn": True}
        sampled = [self._sample(0, number) for number in range(4)]
        other = 1
        return [
            [self._post("create_model", {**made, "model_seq_id": 0, "lora_config": lora}), *self._learn()],
            [*self._learn(), self._train("save_weights", path="a")],
            [*self._learn(), self._load("a", optimizer=True), *self._learn()],
            [self._for_sampler(0, "snapshot"), *self._learn()],
            [*sampled, *self._learn()],
            [self._train("save_weights_for_sampler", path="s"), self._for_sampler(1, "inflight")],
            [self._load("a", optimizer=False), *self._learn(), self._sample(1, 0), self._sample(1, 1)],
            [*self._learn(), self._train("save_weights", path="a", overwrite=True), self._probe()],
            [
                self._post("load_weights", {**made, "model_seq_id": other, "path": self._path("a"), "optimizer": True}),
                *self._learn(other),
                self._probe(other),
            ],
            [*self._learn(), self._post("unload_model", {"model_id": self._model(other)}), self._probe()],
        ]

    def answer(self, id_):
        """Return what a request came to, the same for each session and for each size of a batch."""
        deadline = time.monotonic() + _DEADLINE
        while time.monotonic() < deadline:
            self.post("session_heartbeat", {"session_id": self.session})
            answer = self.poll(id_)
            assert answer.status_code == 200, answer.text
            if "protobuf" not in answer.headers["content-type"]:
                found = answer.json()
                if found.get("type") != "try_again":
                    return orjson.loads(answer.content.replace(self.session.encode(), b"SESSION"))
            elif ":sample:" in id_:
                return [each.tokens for each in messages.SampleResponse.FromString(answer.content).sequences]
            else:
                return answer.content
        raise AssertionError(f"{id_}: has no answer after {_DEADLINE} s")

    def _model(self, number=0):
        return f"{self.session}:train:{number}"

    def _path(self, name):
        return f"tinker://{self.model}/weights/{name}"

    def _post(self, route, body):
        return lambda: self.post(route, body)["request_id"]

    def _number(self, model):
        self._next[model] = self._next.get(model, 0) + 1
        return self._next[model]

    def _train(self, route, model=0, **body):
        return self._post(route, {"model_id": self._model(model), "seq_id": self._number(model), **body})

    def _learn(self, model=0):
        passes = [self._pass(model, each) for each in EXAMPLES]
        return [*passes, self._train("optim_step", model, adam_params={"learning_rate": 0.05})]

    def _pass(self, model, tokens, *, forward_only=False):
        of, seq = self._model(model), self._number(model)

        def send():
            self.model, before = of, self.model
            try:
                return self.step(seq, [datum(tokens)], forward_only=forward_only)
            finally:
                self.model = before

        return send

    def _probe(self, model=0):
        return self._pass(model, PROBE, forward_only=True)

    def _load(self, name, *, optimizer):
        return self._train("load_weights", path=self._path(name), optimizer=optimizer)

    def _for_sampler(self, number, kind):
        return self._train("save_weights_for_sampler", sampling_session_seq_id=number, kind=kind)

    def _sample(self, number, seq):
        asked = {
            "sampling_session_id": f"{self.session}:sample:{number}",
            "seq_id": seq,
            "num_samples": 2,
            "prompt": {"chunks": [{"tokens": [1, 2, 3], "type": "encoded_text"}]},
            "sampling_params": {"max_tokens": 8, "seed": 5 + seq, "stop": []},
        }
        return self._post("asample", asked)


def run(gateway, disturb=lambda _burst, _sent: None):
    """Return the answers to all requests; `disturb` is called after each, with what share of its burst is sent."""
    one, answers = Errands(gateway), []
    try:
        for number, burst in enumerate(one.bursts()):
            ids = []
            for sent, call in enumerate(burst, 1):
                ids.append(call())
                disturb(number, sent / len(burst))
            answers.append([one.answer(each) for each in ids])
        one.http.post(f"/api/v1/sessions/{one.session}/finish", json={"reason": {"type": "success"}})
        disturb(len(answers), 1)
        beat = {"session_id": one.session}
        assert one.http.post("/api/v1/session_heartbeat", json=beat, headers=PROTOBUF).status_code == 410
    finally:
        one.http.close()
    return answers
