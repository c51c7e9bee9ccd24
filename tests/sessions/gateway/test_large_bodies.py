"""A large body of one tenant keeps no other waiting, and takes no more memory than it may."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import zstandard

from muster.sessions.readers.pool import LARGE
from tests.sessions.gateways import Gateway
from tests.sessions.hand import PROTOBUF, datum

TENANTS = ("other", "third", "little")
LIMITS = """
[tenants.little]
reading_bodies = 1
arriving_bytes = 3_000_000
"""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "limits.toml").write_text(LIMITS)

    class Limited(Gateway):
        ENGINES = (*Gateway.ENGINES, "--limits", str(folder / "limits.toml"))

    with Limited(folder) as gateway:
        gateway.keys = {name: gateway.run("keys", "create", name).strip() for name in TENANTS}
        yield gateway


def readers(gateway):
    """Return the processes that read bodies for a Gateway."""
    found = {int(each.name): _words(each) for each in Path("/proc").iterdir() if each.name.isdigit()}
    return sorted(
        pid
        for pid, (parent, words) in found.items()
        if parent == gateway.process.pid and b"muster.sessions.readers.process" in words
    )


def _words(folder):
    try:
        stat = (folder / "stat").read_text().rpartition(")")[2].split()
        return int(stat[1]), (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return 0, []


@contextmanager
def stopped(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def until(is_so):
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.02)


def has_been_sent_some(pid):
    """Tell whether a process has something to read at its standard input."""
    with Path(f"/proc/{pid}/fd/0").open("rb", buffering=0) as pipe:
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0] > 0


BODIES = {
    "JSON": ("sessions/search", {"content": b'{"user_metadata": {"x": "%s"}}' % (b"y" * 900_000)}, 200),
    "members": ("session_heartbeat", {"content": b'{"session_id": "x", "y": [%s0]}' % (b"[]," * 300_000)}, 404),
    "compressed": (
        "sessions/search",
        {
            "content": zstandard.compress(b'{"display_name": "%s"}' % (b"y" * 900_000)),
            "headers": {"Content-Encoding": "zstd"},
        },
        422,
    ),
}


def client(gateway, key=None):
    return httpx.Client(base_url=f"{gateway.url}/api/v1/", headers={"X-API-Key": key or gateway.key}, timeout=120)


def all_started(gateway):
    """Return the processes of a Gateway, after so many bodies at once that each was needed."""
    with client(gateway) as http, ThreadPoolExecutor(8) as threads:

        def send(_):
            return http.post("sessions/search", content=BODIES["JSON"][1]["content"])

        until(
            lambda: {each.status_code for each in threads.map(send, range(8))} == {200} and len(readers(gateway)) == 2
        )
    return readers(gateway)


@pytest.mark.parametrize(("route", "body", "status"), BODIES.values(), ids=BODIES)
def test_others_are_answered_while_a_large_body_is_read(crowded, hand, route, body, status):
    pids = all_started(crowded)
    with client(crowded) as http, ThreadPoolExecutor(1) as threads:
        with stopped(pids):
            large = threads.submit(http.post, route, **body)
            until(lambda: any(map(has_been_sent_some, pids)))
            other = hand(crowded, crowded.keys["other"])
            assert other.create()["model_id"] == other.model
            assert other.result(other.step(1, [datum([1, 2, 3])])).metrics["loss:sum"] > 0
            assert not large.done()
        assert large.result().status_code == status


def test_a_large_pass_is_read_beside_and_executed_like_any_other(crowded, hand):
    one, data = hand(crowded), [datum(list(range(1, 30)) * 8)] * 40
    one.create()
    body = one.written(1, data)
    assert len(body) > LARGE
    headers = {**PROTOBUF, "Content-Encoding": "zstd"}
    sent = one.send("forward_backward", 200, content=zstandard.compress(body), headers=headers).json()["request_id"]
    assert one.step(1, data) == sent, "sent again as it is, it is the same request"
    assert one.result(sent).metrics["loss:sum"] > 0


def test_a_long_prompt_is_read_beside_and_its_tokens_are_counted(crowded, hand):
    one = hand(crowded, crowded.keys["third"])
    session = {"session_id": one.session, "sampling_session_seq_id": 0, "base_model": one.base}
    sampler = one.post("create_sampling_session", session)["sampling_session_id"]
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}
    asked = {"sampling_session_id": sampler, "prompt": prompt, "sampling_params": {"max_tokens": 2}}
    targets = {"data": [-1] * 2 * 20_000, "shape": [2, 20_000]}
    samples = [one.post("asample", {**asked, "seq_id": 0})["request_id"]]
    samples.append(one.post("asample", {**asked, "seq_id": 1, "target_prompt_logprobs": targets})["request_id"])
    until(lambda: all("protobuf" in one.poll(each).headers["content-type"] for each in samples))
    hour = time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(time.time() - 3600))
    end = time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(time.time() + 7200))
    used = one.http.get(f"/api/v1/billing/usage/events?starting_on={hour}&ending_before={end}").json()["data"]
    assert (
        sum(each["event_info"]["token_count"] for each in used if each["event_info"]["type"] == "sampling_prefill") == 6
    )


def test_large_bodies_beyond_the_limit_of_a_tenant_are_sent_again_later(crowded):
    pids = all_started(crowded)
    with client(crowded, crowded.keys["little"]) as http, ThreadPoolExecutor(1) as threads:
        route, body, status = BODIES["JSON"]
        with stopped(pids):
            first = threads.submit(http.post, route, **body)
            until(lambda: any(map(has_been_sent_some, pids)))
            again = http.post(route, **body)
            assert (again.status_code, again.headers["Retry-After"]) == (429, "1")
            assert again.json()["detail"].startswith("reading_bodies: 1 of your large bodies wait to be read")
        assert first.result().status_code == status


def test_what_a_small_body_has_when_it_is_unpacked_counts_among_the_bytes_in_memory(crowded, hand):
    one = hand(crowded, crowded.keys["little"])
    one.create()
    pids = all_started(crowded)
    bomb = zstandard.compress(one.written(1, [datum([1, 2, 3])]) + b"\x7a\x80\x80\x80\x01" + bytes(1 << 21))
    assert len(bomb) < LARGE
    headers = {**PROTOBUF, "Content-Encoding": "zstd"}
    with client(crowded, crowded.keys["little"]) as http, ThreadPoolExecutor(1) as threads:
        with stopped(pids):
            first = threads.submit(http.post, "forward_backward", content=bomb, headers=headers)
            until(lambda: any(map(has_been_sent_some, pids)))
            again = http.post("forward_backward", content=bomb, headers=headers)
            assert again.status_code == 429
        assert first.result().status_code == 200
