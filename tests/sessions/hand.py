"""Requests as the client writes them, sent by hand: in the order and as often as a test wants."""

from __future__ import annotations

import time

import httpx
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_forward_backward_output

PROTOBUF = {"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"}


def datum(tokens, weight=1.0):
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": [weight] * (len(tokens) - 1)},
    )


class Hand:
    """One model of one session."""

    def __init__(self, gateway, key=None):
        self.http = httpx.Client(base_url=gateway.url, headers={"X-API-Key": key or gateway.key}, timeout=60)
        made = self.post("create_session", {"tags": [], "user_metadata": None, "sdk_version": "0.38.0"})
        self.session = made["session_id"]
        self.model = f"{self.session}:train:0"
        self.base = str(gateway.base)

    def send(self, route, expect, **body):
        """Send a request, and again while the journal is away, as the client does: a machine may stall."""
        deadline = time.monotonic() + 120
        while True:
            answer = self.http.post(f"/api/v1/{route}", **body)
            if answer.status_code != 503 or expect == 503 or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert answer.status_code == expect, answer.text
        return answer

    def post(self, route, body, expect=200):
        answer = self.send(route, expect, json=body)
        return answer.json() if answer.content else None

    def create(self, seed=7, rank=4):
        lora = {"rank": rank, "seed": seed, "train_unembed": True, "train_mlp": True, "train_attn": True}
        body = {"session_id": self.session, "model_seq_id": 0, "base_model": self.base, "lora_config": lora}
        return self.result(self.post("create_model", body)["request_id"])

    def step(self, seq, data, expect=200, *, forward_only=False):
        body = self.written(seq, data, forward_only=forward_only)
        answer = self.send("forward_backward", expect, content=body, headers=PROTOBUF)
        return answer.json().get("request_id")

    def written(self, seq, data, *, forward_only=False):
        """Return a pass as the client writes it."""
        given = types.ForwardBackwardInput(data=data, loss_fn="cross_entropy")
        message = forward_backward_request_to_proto(
            types.ForwardBackwardRequest(forward_backward_input=given, model_id=self.model, seq_id=seq)
        )
        message.forward_only = forward_only
        return message.SerializeToString()

    def optim(self, seq, rate=0.1, expect=200):
        body = {"model_id": self.model, "seq_id": seq, "adam_params": {"learning_rate": rate}}
        return (self.post("optim_step", body, expect) or {}).get("request_id")

    def poll(self, id_):
        return self.http.post(
            "/api/v1/retrieve_future", json={"request_id": id_}, headers={"Accept": PROTOBUF["Accept"]}
        )

    def result(self, id_):
        """Return what a request came to, however often it has to be asked for."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                answer = self.poll(id_)
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code == 503:
                time.sleep(0.05)
                continue
            assert answer.status_code == 200, answer.text
            if "protobuf" in answer.headers["content-type"]:
                return deserialize_forward_backward_output(answer.content)
            if answer.json().get("type") != "try_again":
                return answer.json()
        raise AssertionError(f"{id_} has no result")

    def logprobs(self, seq, tokens):
        """Return what the model thinks of tokens now, which tells its weights."""
        output = self.result(self.step(seq, [datum(tokens)], forward_only=True))
        return output.loss_fn_outputs[0]["logprobs"].data
