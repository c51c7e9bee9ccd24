"""Requests as a client writes them, on which attacks are built."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto

__all__ = ["Request", "drawn", "pass_of", "rendered"]

GETS = (
    "healthz",
    "get_server_capabilities",
    "training_runs",
    "training_runs/{model}",
    "training_runs/{model}/checkpoints",
    "checkpoints",
    "sessions",
    "sessions/{session}",
    "samplers/{sampler}",
    "sessions/{session}/trace_export",
    "audit",
    "billing/usage/checkpoints/current",
)


@dataclass
class Request:
    method: str
    path: str
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)


def _posts(of, seq):
    params = {"max_tokens": 1}
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]}
    return {
        "create_session": {"tags": ["a"], "user_metadata": {"a": "b"}, "sdk_version": "0.38.0"},
        "session_heartbeat": {"session_id": of["session"]},
        "create_sampling_session": {
            "session_id": of["session"],
            "sampling_session_seq_id": seq,
            "base_model": of["base"],
        },
        "asample": {"sampling_session_id": of["sampler"], "seq_id": seq, "prompt": prompt, "sampling_params": params},
        "optim_step": {"model_id": of["model"], "seq_id": seq, "adam_params": {"learning_rate": 0.1}},
        "save_weights": {"model_id": of["model"], "seq_id": seq, "path": f"n{seq}"},
        "save_weights_for_sampler": {"model_id": of["model"], "seq_id": seq, "path": f"n{seq}"},
        "load_weights": {"model_id": of["model"], "seq_id": seq, "path": of["path"], "optimizer": True},
        "copy_weights": {"source_path": of["path"], "destination_project_id": "p"},
        "get_info": {"model_id": of["model"]},
        "weights_info": {"tinker_path": of["path"]},
        "retrieve_future": {"request_id": f"{of['model']}:0"},
        "retrieve_futures": {"target": {"sampling_session_id": of["sampler"]}, "timeout": 0},
        "cancel_future": {"request_id": f"{of['sampler']}:{seq}"},
        "join_sampling_session": {"sampling_session_id": of["sampler"]},
        "sessions/search": {"display_name": "x"},
        "client/config": {},
        "auth/token": {},
        "telemetry": {"x": "y"},
        "create_custom_loss": {},
    }


def drawn(rng, of, seq, *, posts=None):
    """Return a request of somebody that is as it should be.

    Args:
        rng: that draws.
        of: what its caller has: `session`, `model`, `sampler`, `path`, `base`.
        seq: a number that was not used before.
        posts: whether it has a body; drawn when it is None.
    """
    if posts is None:
        posts = rng.random() < 0.8
    if not posts:
        return Request("GET", "/api/v1/" + rng.choice(GETS).format(**of))
    if rng.random() < 0.15:
        return Request("POST", "/api/v1/forward_backward", pass_of(of["model"], seq), [_PROTOBUF])
    known = _posts(of, seq)
    route = rng.choice(sorted(known))
    return Request("POST", f"/api/v1/{route}", json.dumps(known[route]).encode(), [_JSON])


_PROTOBUF, _JSON = ("Content-Type", "application/x-protobuf"), ("Content-Type", "application/json")


def pass_of(model, seq, tokens=(1, 2, 3), count=1):
    """Return a forward and backward pass."""
    datum = types.Datum(
        model_input=types.ModelInput.from_ints(list(tokens[:-1])),
        loss_fn_inputs={"target_tokens": list(tokens[1:]), "weights": [1.0] * (len(tokens) - 1)},
    )
    given = types.ForwardBackwardInput(data=[datum] * count, loss_fn="cross_entropy")
    asked = types.ForwardBackwardRequest(forward_backward_input=given, model_id=model, seq_id=seq)
    return forward_backward_request_to_proto(asked).SerializeToString()


def rendered(request, key, headers=(), *, length=True):
    """Return the bytes of a request."""
    lines = [f"{request.method} {request.path} HTTP/1.1", "Host: gateway", f"X-API-Key: {key}"]
    lines += [f"{name}: {value}" for name, value in (*request.headers, *headers)]
    if length and (request.body or request.method != "GET"):
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + request.body
