"""Writes through the real client, against a server on loopback."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from muster.kube import authentication, clients, transports
from muster.webhook.cluster import kinds, writes

CLAIM = {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "n", "resourceVersion": "7"}}
PATH = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims"


class Server:
    """Answers every request with one status and keeps what was asked."""

    status, body, pause = 200, CLAIM, 0.0

    def __init__(self):
        self.seen = []

    async def answer(self, request):
        body = await request.text()
        kind = request.headers.get("Content-Type", "") if body else ""
        self.seen.append((request.method, request.path, kind, json.loads(body) if body else None))
        await asyncio.sleep(self.pause)
        return web.json_response(self.body, status=self.status)


@pytest.fixture
async def server():
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    listening = TestServer(app)
    await listening.start_server(shutdown_timeout=0.05)
    made.url = str(listening.make_url("")).rstrip("/")
    yield made
    await listening.close()


@pytest.fixture
async def access(server, tmp_path, monkeypatch):
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))  # reading the system's takes most of a test's time
    cluster, context = {"server": server.url}, {"cluster": "c", "user": "u"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    api = await clients.connect(tmp_path / "kubeconfig")
    counted = []
    made = writes.Writes(api, 0.5, lambda *what: counted.append(what))
    made.counted = counted
    yield made
    await api.close()


async def test_each_verb_is_the_request_that_the_api_server_knows(server, access):
    assert await access.get(kinds.CLAIM, "n", "c") == CLAIM
    await access.create(kinds.CLAIM, CLAIM)
    await access.replace(kinds.CLAIM, CLAIM)
    await access.patch(kinds.CLAIM, "n", "c", {"metadata": {}})
    await access.patch(kinds.CLAIM, "n", "c", [{"op": "remove", "path": "/a"}])
    assert await access.delete(kinds.CLAIM, "n", "c", "u", "7")
    preconditions = {"uid": "u", "resourceVersion": "7"}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    assert server.seen == [
        ("GET", f"{PATH}/c", "", None),
        ("POST", PATH, "application/json", CLAIM),
        ("PUT", f"{PATH}/c", "application/json", CLAIM),
        ("PATCH", f"{PATH}/c", "application/merge-patch+json", {"metadata": {}}),
        ("PATCH", f"{PATH}/c", "application/json-patch+json", [{"op": "remove", "path": "/a"}]),
        ("DELETE", f"{PATH}/c", "application/json", options | {"propagationPolicy": "Background"}),
    ]
    assert access.counted == [
        (verb, "resourceclaims", "ok") for verb in ("create", "update", "patch", "patch", "delete")
    ]


async def test_what_is_not_there_is_no_error_to_read_or_to_delete(server, access):
    server.status, server.body = 404, {"message": "not found"}
    assert await access.get(kinds.CLAIM, "n", "c") is None
    assert not await access.delete(kinds.CLAIM, "n", "c", "u")


@pytest.mark.parametrize(
    ("status", "message", "error", "outcome"),
    [
        (409, "the object has been modified", writes.ConflictError, "conflict"),
        (403, "because it is being terminated", writes.TerminatingError, "failed"),
        (403, "forbidden", transports.RefusedError, "failed"),
        (422, "invalid", transports.RefusedError, "failed"),
    ],
)
async def test_refusals_are_told_apart_and_say_what_was_asked(server, access, status, message, error, outcome):
    server.status, server.body = status, {"kind": "Status", "message": message}
    with pytest.raises(error, match=f"POST {PATH}: HTTP {status}: {message}") as raised:
        await access.create(kinds.CLAIM, CLAIM)
    assert raised.type is error
    assert access.counted == [("create", "resourceclaims", outcome)]


async def test_a_write_that_is_not_answered_ends_at_its_deadline(server, access):
    server.pause = 5.0
    with pytest.raises(transports.UnreachableError, match=r"was not answered within 0\.5 s"):
        await access.create(kinds.CLAIM, CLAIM)


async def test_a_server_that_is_not_there_is_unreachable():
    client = clients.Client(authentication.Credentials("http://127.0.0.1:9"))
    with pytest.raises(transports.UnreachableError):
        await writes.Writes(client).create(kinds.CLAIM, CLAIM)
    await client.close()
