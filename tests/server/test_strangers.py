"""What is no HTTP of ours gets one sentence that repeats nothing, and whoever goes is worked for no longer."""

from __future__ import annotations

import asyncio
import email.message
import logging
import re
import ssl

import orjson
import pytest

from muster.webhook import configs
from muster.webhook.server.services import Service
from tests.server.conftest import review
from tests.server.test_service import written
from tests.support import waits

SECRET = b"hf_IpNP5oi2JnOL2P3jcNAG5OXWL2sQPTNN4U"


async def said(port, sent, tls=None):
    """Send bytes; return all that comes back until the connection ends."""
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    writer.write(sent)
    try:
        return await asyncio.wait_for(reader.read(), waits.LIMIT)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "sent",
    [
        b"%s / HTTP/1.1\r\n\r\n" % SECRET,
        b"GET /\x00%s HTTP/1.1\r\n\r\n" % SECRET,
        b"GET / HTTP/1.1\r\nX Bad: %s\r\n\r\n" % SECRET,
        b"GET / HTTP/1.1\r\nCookie: %s\r\n\r\n" % (SECRET * 300),
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"POST /mutate/trainjobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n" % SECRET,
        b"GET http://[::1/%s HTTP/1.1\r\nHost: a\r\n\r\n" % SECRET,
    ],
    ids=["method", "target", "header", "long", "many", "chunk", "address"],
)
async def test_what_is_no_http_gets_one_sentence_that_repeats_nothing_of_it(serve, sent):
    webhook = await serve()
    answered = await said(webhook.port, sent)
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
    assert body == b"this is not a request of HTTP/1.1, or a header of it is too long; correct it\n"
    assert b"Server: muster\r\n" in head + b"\r\n"


async def test_no_answer_tells_the_versions_of_what_it_was_made_with(serve):
    webhook = await serve()
    for path in ("/nothing", "/mutate/trainjobs"):
        async with webhook.http.get(webhook.url + path) as answer:
            assert answer.headers["Server"] == "muster"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("application/json", 200),
        ("Application/JSON ; charset=utf-8", 200),
        ("application/json" + ";" * 8000, 200),
        ('application/json; a="' + ';"' * 3500, 200),
        ("application/jsonl", 415),
        ("text/plain; application/json", 415),
        ("; application/json", 415),
        ("application/json, text/plain", 415),
        ("", 415),
    ],
)
async def test_of_a_content_type_only_the_type_is_read(serve, monkeypatch, given, status):
    """Reading 8 kB of parameters held up the service for half a second."""
    read = []
    monkeypatch.setattr(email.message, "_parseparam", lambda text: read.append(text) or [text])
    webhook = await serve()
    body = orjson.dumps(review())
    head = f"POST /mutate/trainjobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {given}\r\n"
    answered = await said(webhook.port, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert answered.startswith(f"HTTP/1.1 {status} ".encode())
    assert not [each for each in read if "json" in str(each)]  # those of answers are our own


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9"])
async def test_another_version_of_http_is_not_answered_as_if_it_were_spoken(serve, version):
    webhook = await serve()
    answered = await said(webhook.port, b"POST /mutate/trainjobs " + version + b"\r\nHost: a\r\n\r\n")
    assert answered.startswith((b"HTTP/1.1 505 ", b"HTTP/1.0 400 "))


async def test_who_asks_whether_a_body_is_wanted_is_told_so(serve):
    webhook = await serve()
    body = orjson.dumps(review(uid="u3"))
    head = b"POST /mutate/trainjobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", webhook.port)
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body))
    assert await reader.readexactly(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    writer.transport.abort()


async def test_who_asks_whether_a_body_is_wanted_that_is_too_large_is_refused_at_once(serve):
    webhook = await serve(body_limit=100_000)
    head = b"POST /mutate/trainjobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    assert (await said(webhook.port, head + b"Content-Length: 200000\r\n\r\n")).startswith(b"HTTP/1.1 413 ")


@pytest.fixture
async def secured(tmp_path):
    """The whole service, and TLS that trusts it."""
    path = written(tmp_path)
    service = Service(configs.load(path), path)
    await service.start()
    yield service, ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    await service.stop()


@pytest.mark.parametrize("further", [2, 2000], ids=["few", "more than are read at once"])
async def test_a_client_that_goes_before_its_answers_is_worked_for_no_longer_and_not_logged(secured, caplog, further):
    service, tls = secured
    caplog.set_level(logging.WARNING)
    asked, free = asyncio.Event(), asyncio.Event()

    async def wait():
        asked.set()
        await free.wait()

    service._health.problems = wait
    _, writer = await asyncio.open_connection("127.0.0.1", service.port, ssl=tls, server_hostname="localhost")
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n" + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * further)
    await asyncio.wait_for(asked.wait(), waits.LIMIT)
    writer.transport.abort()
    await waits.until(lambda: not len(service._listener.connections))
    free.set()
    await waits.turns(200)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("method", ["POST", "DELETE", "TRACE", "OPTIONS"])
async def test_health_and_metrics_are_only_read(secured, method):
    service, tls = secured
    for where in ("/healthz", "/readyz", "/metrics"):
        sent = f"{method} {where} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
        answered = await said(service.port, sent, tls)
        assert answered.startswith(b"HTTP/1.1 405 ")
        assert b"\r\nAllow: GET, HEAD\r\n" in answered


AMBIGUOUS = {
    "CONNECT": "CONNECT /healthz HTTP/1.1\r\nContent-Length: {}\r\n",
    "no coding": "POST /healthz HTTP/1.1\r\nTransfer-Encoding:\r\nContent-Length: 0\r\n",
    "no coding after a length": "POST /healthz HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: \r\n",
    "identity": "POST /healthz HTTP/1.1\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n",
    "identity, chunked": "POST /healthz HTTP/1.1\r\nTransfer-Encoding: identity, chunked\r\n",
    "gzip, chunked": "POST /healthz HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n",
    "two headers": "POST /healthz HTTP/1.1\r\nTransfer-Encoding:\r\nTransfer-Encoding: chunked\r\n",
}


@pytest.mark.parametrize("head", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_what_follows_a_request_whose_end_is_in_doubt_is_no_request(secured, head):
    service, tls = secured
    inner = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    sent = f"{head.format(len(inner))}Host: a\r\n\r\n" + ("0\r\n\r\n" if "chunked" in head else "") + inner
    answer = await said(service.port, sent.encode(), tls)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert len(re.findall(rb"HTTP/1\.\d \d{3} ", answer)) == 1


@pytest.mark.parametrize("end", ["reset", "closed", "half closed"])
@pytest.mark.parametrize("plain", [False, True], ids=["TLS", "plain"])
async def test_a_body_whose_sender_goes_is_not_logged(secured, serve, caplog, plain, end):
    service, tls = secured
    webhook = await serve()
    port, tls = (webhook.port, None) if plain else (service.port, tls)
    listener = webhook.listener if plain else service._listener
    caplog.set_level(logging.DEBUG)
    head = (
        "POST /mutate/trainjobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    )
    for path in ("/mutate/trainjobs", "/healthz", "/nothing"):
        for _ in range(20):
            name = "localhost" if tls else None
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
            writer.write(head.replace("/mutate/trainjobs", path).encode())
            if end == "half closed" and plain:
                writer.write_eof()
                await reader.read()
            if end == "reset":
                writer.transport.abort()
            writer.close()
    await waits.until(lambda: not len(listener.connections))
    await waits.turns(200)
    assert [record.getMessage() for record in caplog.records if record.exc_info or record.levelno > logging.INFO] == []
