"""A small API server on loopback that can misbehave on demand, and a connection to it through the real client."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from muster.kube import clients
from tests.support import waits

PLURALS = {
    "TrainJob": "trainjobs",
    "JobSet": "jobsets",
    "TrainingRuntime": "trainingruntimes",
    "ClusterTrainingRuntime": "clustertrainingruntimes",
    "ConfigMap": "configmaps",
    "Namespace": "namespaces",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "ResourceClaim": "resourceclaims",
    "DeviceClass": "deviceclasses",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}


class FakeApiServer:
    """Lists with pages, watches from a version, gets; `fault` replaces the answer to the next request of a verb.

    `seen` holds (verb, plural, query) of every request, `seen_headers` their headers, and `tokens`, when set, the
    bearer tokens that are let in. Paths in `forbidden` are refused.
    """

    def __init__(self):
        self.openapi = {}  # what it says about the kinds of Trainer
        self.version = 100
        self.oldest = 0
        self.seen = []
        self.seen_headers = []
        self.tokens = None
        self.not_served = set()
        self.forbidden = set()
        self.refusals = {}
        self.created = []
        self._objects = defaultdict(dict)
        self._history = []
        self._watchers = defaultdict(list)
        self._faults = defaultdict(deque)
        app = web.Application()
        app.router.add_get("/openapi/{path:.*}", self._schema)
        app.router.add_get("/{path:.*}", self._answer)
        app.router.add_post("/{path:.*}", self._answer)
        self._server = TestServer(app)

    async def start(self):
        await self._server.start_server(shutdown_timeout=0.05)
        return self

    async def stop(self):
        for queues in self._watchers.values():
            for queue in queues:
                queue.put_nowait(None)
        await self._server.close()

    @property
    def url(self):
        return str(self._server.make_url("")).rstrip("/")

    def fault(self, verb, handler):
        """Answer the next request of this verb with `await handler(request)`."""
        self._faults[verb].append(handler)

    def count(self, verb):
        return sum(1 for seen, _, _ in self.seen if seen == verb)

    def queries(self, verb):
        return [query for seen, _, query in self.seen if seen == verb]

    def put(self, document):
        metadata = document["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        plural = PLURALS[document["kind"]]
        kind = "MODIFIED" if key in self._objects[plural] else "ADDED"
        self._changed(kind, plural, key, document)

    def delete(self, kind, name, namespace=""):
        plural = PLURALS[kind]
        self._changed("DELETED", plural, (namespace, name), self._objects[plural][namespace, name])

    def forget_history(self):
        """Compact: watches from before now get 410."""
        self._history.clear()
        self.oldest = self.version

    def remove_silently(self, kind, name, namespace=""):
        del self._objects[PLURALS[kind]][namespace, name]
        self.version += 1

    def send(self, kind, chunk):
        """Write raw bytes to all watches of a kind; None ends them well, an exception breaks the connection."""
        for queue in self._watchers[PLURALS[kind]]:
            queue.put_nowait(chunk)

    def bookmark(self, kind):
        self.version += 1
        self.send(kind, event("BOOKMARK", {"kind": kind, "metadata": {"resourceVersion": str(self.version)}}))

    def watchers(self, kind):
        return len(self._watchers[PLURALS[kind]])

    def _changed(self, kind, plural, key, document):
        self.version += 1
        document = {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.version)}}
        if kind == "DELETED":
            del self._objects[plural][key]
        else:
            self._objects[plural][key] = document
        self._history.append((self.version, plural, event(kind, document)))
        for queue in self._watchers[plural]:
            queue.put_nowait(event(kind, document))

    async def _schema(self, _request):
        return web.json_response(self.openapi, status=200 if self.openapi else 404)

    async def _answer(self, request):
        parts = request.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = parts[1] if len(parts) > 2 else ""
        plural, *name = parts[2:] if namespace else parts
        verb = "get" if name else "watch" if request.query.get("watch") else "list"
        verb = "create" if request.method == "POST" else verb
        self.seen.append((verb, plural, dict(request.query)))
        self.seen_headers.append(request.headers)
        if self.tokens is not None and request.headers.get("Authorization", "")[7:] not in self.tokens:
            return status(401, "Unauthorized")
        if self._faults[verb]:
            return await self._faults[verb].popleft()(request)
        if request.path in self.forbidden:
            return status(403, f"{plural} is forbidden")
        if plural in self.not_served:
            return web.Response(status=404, text="404 page not found\n")
        if verb in ("get", "list"):
            return self._get(plural, namespace, name[0]) if name else self._list(request, plural, namespace)
        return await (self._create(request, plural) if verb == "create" else self._watch(request, plural, namespace))

    async def _create(self, request, plural):
        """Answer a creation by the refusal of its plural, and keep what was sent; nothing is stored."""
        document = await request.json()
        self.created.append((plural, dict(request.query), document))
        return status(*self.refusals[plural]) if plural in self.refusals else web.json_response(document, status=201)

    def _get(self, plural, namespace, name):
        document = self._objects[plural].get((namespace, name))
        return web.json_response(document) if document else status(404, f'{plural} "{name}" not found')

    def _list(self, request, plural, namespace=""):
        start, size = int(request.query.get("continue", 0)), int(request.query["limit"])
        there = self._objects[plural].items()
        objects = [without_type(each) for (space, _), each in there if namespace in ("", space)]
        metadata = {"resourceVersion": str(self.version)}
        if start + size < len(objects):
            metadata["continue"] = str(start + size)
        return web.json_response({"metadata": metadata, "items": objects[start : start + size]})

    async def _watch(self, request, plural, namespace):
        since = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if since < self.oldest:
            await response.write(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"}))
            return response
        queue = asyncio.Queue()
        for version, changed, line in self._history:
            if changed == plural and version > since and _is_in(namespace, line):
                queue.put_nowait(line)
        self._watchers[plural].append(queue)
        try:
            while (chunk := await queue.get()) is not None:
                if isinstance(chunk, Exception):
                    request.transport.abort()
                    break
                if _is_in(namespace, chunk):
                    await response.write(chunk)
        finally:
            self._watchers[plural].remove(queue)
        return response


def event(kind, document):
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


def _is_in(namespace, line):
    """Whether a watch of a namespace, or of all, tells a line; broken ones are told by all."""
    return not namespace or b'"namespace"' not in line or json.dumps({"namespace": namespace}).encode()[1:-1] in line


def without_type(document):
    """Lists of built-in kinds leave these out of their items."""
    return {key: value for key, value in document.items() if key not in {"apiVersion", "kind"}}


def status(code, message, headers=None):
    body = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code, headers=headers)


def write_kubeconfig(path, url, user=None):
    cluster = {"name": "c", "cluster": {"server": url}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "users": [{"name": "u", "user": user or {}}], "contexts": [context]}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "x", **config}))
    return path


@pytest.fixture(autouse=True)
def no_public_authorities(monkeypatch, tmp_path):
    """Reading the system's certificate authorities takes most of a test's time, and nothing here speaks TLS."""
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))


class Clock:
    """Stands until a test moves it."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


class Gate:
    """A fault that holds requests until it is opened, then lets them find nothing."""

    def __init__(self):
        self.open = asyncio.Event()

    async def __call__(self, _request):
        await self.open.wait()
        return web.json_response({"message": "not found"}, status=404)


@pytest.fixture
def gate():
    """Hold requests until it is opened."""
    return Gate()


@pytest.fixture
async def server():
    fake = await FakeApiServer().start()
    yield fake
    await fake.stop()


@pytest.fixture
async def api(server, tmp_path):
    connection = await clients.connect(write_kubeconfig(tmp_path / "kubeconfig", server.url))
    yield connection
    await connection.close()


@pytest.fixture
def refuse():
    """Make a fault that answers with a status."""

    def make(code, message="no", headers=None):
        async def handler(_request):
            return status(code, message, headers)

        return handler

    return make


@pytest.fixture
def until():
    """Wait until a condition holds."""
    return waits.until


@pytest.fixture
def kubeconfig(tmp_path):
    """Write a kubeconfig."""
    return lambda url, user=None: write_kubeconfig(tmp_path / "kubeconfig", url, user)


@pytest.fixture
def make_event():
    return event


@pytest.fixture
def trainjob():
    """Make a TrainJob."""

    def make(name="llama", namespace="team-a", **spec):
        metadata = {"name": name, "namespace": namespace}
        return {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": metadata,
            "spec": {"runtimeRef": {"name": "trl"}, **spec},
        }

    return make


@pytest.fixture
def snapshot():
    """Make a snapshot ConfigMap."""

    def make(text, trainjob="llama", namespace="team-a"):
        metadata = {"name": f"{trainjob}-runtime-snapshot", "namespace": namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": text}}

    return make
