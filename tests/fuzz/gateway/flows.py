"""Attacks by the order and the speed of what is sent."""

from __future__ import annotations

import json

from tests.fuzz.gateway.requests import Request, drawn, rendered
from tests.fuzz.gateway.wire import Sent

__all__ = ["ATTACKS"]


def pipelined(rng, world, seq):
    """Several requests at once, some the same, one of them broken."""
    many = rng.choice([2, 5, 40])
    parts = [rendered(drawn(rng, world.mine, seq + number % 7), world.key) for number in range(many)]
    whole = rng.random() < 0.5
    if not whole:
        parts[rng.randrange(many)] = rng.choice(
            [b"\r\n\r\n", b"x", b"GET / HTTP/9\r\n\r\n", parts[0][:20], b"\0" * 100]
        )
    end = rng.choice(["read", "close", "reset"])
    return [Sent([b"".join(parts)], most=many, whole=whole and end == "read", end=end)]


def slow(rng, world, seq):
    """A request piece by piece."""
    data = rendered(drawn(rng, world.mine, seq), world.key)
    size = rng.choice([1, 7, 100])
    pieces = [data[at : at + size] for at in range(0, min(len(data), 40 * size), size)]
    return [Sent([*pieces, data[40 * size :]], slow=True)]


def cut(rng, world, seq):
    """A request that ends at any byte, by a close, a reset or half a close."""
    data = rendered(drawn(rng, world.mine, seq), world.key)
    end = rng.choice(["close", "reset", "half"])
    return [Sent([data[: rng.randrange(len(data) + 1)]], whole=False, end=end)]


def abandoned(rng, world, seq):
    """A poll that waits, whose caller goes."""
    asked = Request(
        "POST",
        "/api/v1/asample",
        json.dumps(
            {
                "sampling_session_id": world.mine["sampler"],
                "seq_id": seq,
                "prompt": {"chunks": [{"tokens": [1]}]},
                "sampling_params": {"max_tokens": 1},
            }
        ).encode(),
    )
    poll = Request("POST", "/api/v1/retrieve_future", json.dumps({"request_id": f"{world.mine['waiting']}"}).encode())
    wait = Request(
        "POST",
        "/api/v1/retrieve_futures",
        json.dumps({"target": {"sampling_session_id": world.mine["idle"]}, "timeout": 30}).encode(),
    )
    polls = [
        Sent([rendered(rng.choice([poll, wait]), world.key)], whole=False, end=rng.choice(["close", "reset", "half"]))
        for _ in range(rng.choice([1, 10, 50]))
    ]
    return [Sent([rendered(asked, world.key)]), *polls]


def idle(rng, world, seq):
    """Connections that say nothing, or no end of it."""
    parts = (
        b"",
        b"G",
        b"POST /api/v1/asample HTTP/1.1\r\n",
        b"\r\n" * 2000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    )
    return [
        Sent([rng.choice(parts)], whole=False, end=rng.choice(["close", "reset", "half"]))
        for _ in range(rng.choice([5, 60]))
    ]


def unread(rng, world, seq):
    """Answers of which nothing is read."""
    many = rendered(Request("GET", "/api/v1/checkpoints?limit=500"), world.key) * rng.choice([5, 200])
    return [Sent([many], whole=False, most=200, end=rng.choice(["close", "reset"])) for _ in range(3)]


def flooded(rng, world, seq):
    """Sessions and tokens, many at a time."""
    session = Request("POST", "/api/v1/create_session", b"{}")
    token = Request("POST", "/api/v1/auth/token", b"{}")
    nobody = [f"tml-{seq:040d}{number}" for number in range(10)]
    sent = [Sent([rendered(session, world.key) * 10], most=10), Sent([rendered(token, world.key) * 20], most=20)]
    return [*sent, *(Sent([rendered(token, each)], statuses=frozenset({401})) for each in nobody)]


def metrics(rng, world, seq):
    """The port of metrics, which takes no key."""
    parts = [
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 100_000,
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /metrics?" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /api/v1/sessions HTTP/1.1\r\nHost: a\r\n\r\n",
        b"X" * 200_000,
        b"\0\0",
    ]
    return [Sent([rng.choice(parts)], whole=False, end=rng.choice(["read", "reset"]))]


def twice(rng, world, seq):
    """A request again, on another connection at the same time, as it is or as another with its number."""
    one = drawn(rng, world.mine, seq, posts=True)
    other = drawn(rng, world.mine, seq, posts=True)
    return [Sent([rendered(each, world.key)]) for each in rng.choices([one, one, other], k=4)]


ATTACKS = (pipelined, slow, cut, abandoned, idle, unread, flooded, metrics, twice)
