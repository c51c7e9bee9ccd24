"""Bytes that are no requests, or no whole ones: nothing of them is in the log, and others are answered."""

from __future__ import annotations

import json
import re
import socket
import struct
import time

import pytest

from muster.sessions.gateway.arrivals import Arrivals
from muster.sessions.runs.quotas import Quotas
from tests.sessions.hand import datum

SECRET = "tml-" + "k3y" * 12
HEAD = f"POST /api/v1/forward_backward HTTP/1.1\r\nHost: a\r\nX-API-Key: {SECRET}\r\n"
NO_HTTP = {
    "a NUL in a header": f"{HEAD}X-A: \0\r\n\r\n",
    "a key with a NUL": f"GET / HTTP/1.1\r\nHost: a\r\nX-API-Key: {SECRET}\0\r\n\r\n",
    "a space before the colon": f"GET / HTTP/1.1\r\nHost: a\r\nX-API-Key : {SECRET}\r\n\r\n",
    "a long line": f"GET /{SECRET * 300} HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long key": f"GET / HTTP/1.1\r\nHost: a\r\nX-API-Key: {SECRET * 300}\r\n\r\n",
    "a length and chunks": f"{HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": f"{HEAD}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "a version": f"GET /{SECRET} HTTP/9.9\r\nHost: a\r\n\r\n",
}


def log(gateway):
    return (gateway.folder / f"gateway-{gateway.replica}.log").read_text()


def sent(gateway, data):
    """Send bytes, and return all that is answered until the connection is closed."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
        connection.sendall(data)
        answer = b""
        while some := connection.recv(65536):
            answer += some
    return answer


@pytest.mark.parametrize("data", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_not_http_is_refused_and_not_logged(shared, data):
    before = log(shared)
    assert sent(shared, data.encode()).split()[1] == b"400"
    assert log(shared) == before


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT /api/v1/client/config HTTP/1.1\r\nContent-Length: {}\r\n",
        "POST /api/v1/client/config HTTP/1.1\r\nTransfer-Encoding:\r\nContent-Length: 0\r\n",
        "POST /api/v1/client/config HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: \r\n",
        "POST /api/v1/client/config HTTP/1.1\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n",
        "POST /api/v1/client/config HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n",
        "POST /api/v1/client/config HTTP/1.1\r\nTransfer-Encoding:\r\nTransfer-Encoding: chunked\r\n",
    ],
    ids=["CONNECT", "no coding", "no coding after a length", "identity", "two codings", "two headers"],
)
def test_what_follows_a_request_whose_end_is_in_doubt_is_no_request(shared, head):
    inner = f"GET /api/v1/get_server_capabilities HTTP/1.1\r\nHost: a\r\nX-API-Key: {shared.key}\r\n\r\n"
    data = f"{head.format(len(inner))}Host: a\r\nX-API-Key: {shared.key}\r\n\r\n"
    data += "0\r\n\r\n" if "chunked" in head else ""
    answer = sent(shared, (data + inner).encode())
    assert answer.split()[1] == b"400"
    assert len(re.findall(rb"HTTP/1\.\d \d{3} ", answer)) == 1
    assert b"supported_models" not in answer


@pytest.mark.parametrize(
    "chunk", [b"zz\r\n", b"-1\r\nx\r\n", b"2\r\nabc\r\n"], ids=["no number", "negative", "too long"]
)
def test_a_body_of_broken_chunks_is_not_logged(shared, hand, chunk):
    before = log(shared)
    head = f"POST /api/v1/create_session HTTP/1.1\r\nHost: a\r\nX-API-Key: {shared.key}\r\n"
    with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as connection:
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
        assert hand(shared).session
        connection.sendall(chunk)
        assert hand(shared).session
    assert hand(shared).session
    assert log(shared) == before


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_body_whose_sender_goes_is_not_logged_and_counts_no_longer(shared, hand, reset):
    before = log(shared)
    head = f"POST /api/v1/forward_backward HTTP/1.1\r\nHost: a\r\nX-API-Key: {shared.key}\r\nContent-Length: 900000\r\n"
    head += "Content-Type: application/x-protobuf\r\n\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as connection:
            connection.sendall(head.encode() + b"\n" + bytes(1000))
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert hand(shared).session
    assert log(shared) == before


def test_json_that_only_one_of_two_parsers_reads_is_sampled_from_like_any_other(shared, hand):
    before, one = log(shared), hand(shared)
    session = {"session_id": one.session, "sampling_session_seq_id": 0, "base_model": one.base}
    sampler = one.post("create_sampling_session", session)["sampling_session_id"]
    asked = {"sampling_session_id": sampler, "seq_id": 0, "sampling_params": {"max_tokens": 1}}
    asked["prompt"] = {"chunks": [{"tokens": [1, 2]}]}
    asked["target_prompt_logprobs"] = {"data": [1], "shape": [1, 1], "more": "NaN"}
    body = json.dumps(asked).replace('"NaN"', "[NaN, -Infinity]").encode()
    id_ = one.send("asample", 200, content=body).json()["request_id"]
    deadline = time.monotonic() + 120
    while "protobuf" not in (answer := one.poll(id_)).headers["content-type"]:
        assert "error" not in answer.json(), answer.text
        assert time.monotonic() < deadline
    assert one.create()["model_id"] == one.model
    assert one.result(one.step(1, [datum([1, 2, 3])])).metrics["loss:sum"] > 0
    assert log(shared) == before


def test_when_all_have_too_much_in_memory_who_has_the_most_gives_way():
    of = Arrivals(Quotas(), most=100)
    of.change("a", 90)
    of.change("b", 9)
    assert not of.has_most("a")
    of.change("b", 9)
    assert (of.has_most("a"), of.has_most("b")) == (True, False)
    of.change("a", -90)
    assert (of.has_most("b"), of.all, dict(of.held)) == (False, 18, {"b": 18})
