"""An API server in memory, with what optimistic writers live by: versions, preconditions, selectors and watches.

Each request yields to the others before and after it is carried out, so that many writers meet in any order.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
import os
import random
import urllib.parse
from collections import defaultdict

from muster.kube import transports

EPOCH = "2026-11-21T12:00:{:02d}Z"


class Answer:
    """A response with a body, or with an endless one."""

    def __init__(self, status, body=None, queue=None, lag=None):
        self.status = status
        self.headers = {}
        self._body, self._queue, self._lag = body, queue, lag

    async def chunks(self):
        if self._queue is None:
            yield json.dumps(self._body).encode()
            return
        while (event := await self._queue.get()) is not None:
            await self._lag()
            yield json.dumps(event).encode() + b"\n"


class RefusedError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class ApiServer:
    """Holds objects; `connection` makes a client, which a test can cut off.

    Attributes:
        log: (verb, plural, namespace, name) of every write that was carried out.
        faults: called with (method, plural) of every request; may raise.
        followed: (plural, namespace) of every list.
        watched: called after each change with (plural, document or None).
        pause: seconds that a request takes at most, besides turns of others.
        lag: seconds, on average, by which each watch is late with each event; by default those of `LAG`.
    """

    def __init__(self, seed=0):
        self.rng = random.Random(seed)  # noqa: S311 - the same in every run
        self.objects = defaultdict(dict)
        self.version = itertools.count(1)
        self.last = "0"
        self.log = []
        self.faults = lambda _method, _plural: None
        self.watched = lambda _plural, _document: None
        self.pause = 0.0
        self.lag = float(os.environ.get("LAG", "0"))
        self.followed = set()
        self._watches = []
        self._history = []

    def connection(self):
        return Connection(self)

    def put(self, document):
        """Create or replace an object, as somebody with all rights and no care."""
        document = copy.deepcopy(document)
        metadata = document["metadata"]
        plural = document["kind"].lower() + "s"
        key = (metadata.get("namespace", ""), metadata["name"])
        present = self.objects[plural].get(key)
        metadata.setdefault("uid", present["metadata"]["uid"] if present else f"uid-{next(self.version)}")
        metadata.setdefault("creationTimestamp", EPOCH.format(len(self.objects[plural]) % 60))
        self._store(plural, key, document)
        return self.objects[plural][key]

    def get(self, kind, name, namespace=""):
        return self.objects[kind.lower() + "s"].get((namespace, name))

    def all(self, kind):
        return list(self.objects[kind.lower() + "s"].values())

    def remove(self, kind, name, namespace=""):
        self._drop(kind.lower() + "s", (namespace, name))

    def _store(self, plural, key, document):
        before = self.objects[plural].get(key)
        self.last = document["metadata"]["resourceVersion"] = str(next(self.version))
        self.objects[plural][key] = document
        self._changed(plural, before, document, document)

    def _drop(self, plural, key):
        before = self.objects[plural].pop(key)
        self.last = str(next(self.version))
        gone = copy.deepcopy(before)
        gone["metadata"]["resourceVersion"] = self.last
        self._changed(plural, before, None, gone)

    def _changed(self, plural, before, after, shown):
        self._history.append((int(self.last), plural, before, after, shown))
        for watch in self._watches:
            watch.tell(plural, before, after, shown)
        self.watched(plural, after)

    async def answer(self, method, path, query, body, content_type):
        await self.breathe()
        plural, namespace, name = _parts(path)
        try:
            self.faults(method, plural)
            answer = self._answer(method, plural, (namespace, name), query, body, content_type)
        except RefusedError as refused:
            answer = Answer(refused.code, {"kind": "Status", "code": refused.code, "message": str(refused)})
        await self.breathe()
        return answer

    async def breathe(self):
        for _ in range(self.rng.randrange(3)):
            await asyncio.sleep(0)
        if self.pause:
            await asyncio.sleep(self.rng.uniform(0, self.pause))

    async def _lag(self):
        if self.lag:
            await asyncio.sleep(self.rng.expovariate(1 / self.lag))

    def _answer(self, method, plural, key, query, body, content_type):
        if method == "GET" and not key[1]:
            return self._watch(plural, key[0], query) if query.get("watch") else self._list(plural, key[0], query)
        if method == "POST":
            return Answer(201, self._create(plural, key[0], copy.deepcopy(body)))
        present = self.objects[plural].get(key)
        if present is None:
            raise RefusedError(404, f'{plural} "{key[1]}" not found')
        if method == "GET":
            return Answer(200, copy.deepcopy(present))
        self.log.append((method, plural, *key))
        if method == "DELETE":
            return Answer(200, self._delete(plural, key, present, body))
        if method == "PUT":
            changed = copy.deepcopy(body)
        elif "merge" in content_type:
            changed = _merged(present, body)
        else:
            changed = _patched(present, body)
        if changed["metadata"].get("uid") != present["metadata"]["uid"]:
            raise RefusedError(422, "metadata.uid: Invalid value: field is immutable")
        if changed["metadata"].get("resourceVersion") != present["metadata"]["resourceVersion"]:
            raise RefusedError(409, "the object has been modified")
        self._store(plural, key, changed)
        return Answer(200, copy.deepcopy(changed))

    def _create(self, plural, namespace, document):
        space = self.objects["namespaces"].get(("", namespace))
        if space is None:
            raise RefusedError(404, f'namespaces "{namespace}" not found')
        if space["metadata"].get("deletionTimestamp"):
            raise RefusedError(
                403, f"unable to create new content in namespace {namespace} because it is being terminated"
            )
        metadata = document["metadata"]
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{next(self.version)}")
        key = (namespace, metadata["name"])
        if key in self.objects[plural]:
            raise RefusedError(409, f'{plural} "{metadata["name"]}" already exists')
        metadata["uid"] = f"uid-{next(self.version)}"
        self.log.append(("POST", plural, *key))
        self._store(plural, key, document)
        return copy.deepcopy(document)

    def _delete(self, plural, key, present, body):
        for name, wanted in ((body or {}).get("preconditions") or {}).items():
            if present["metadata"][name] != wanted:
                raise RefusedError(409, f"precondition failed: {name}")
        self._drop(plural, key)
        return {"kind": "Status", "status": "Success"}

    def _list(self, plural, namespace, query):
        self.followed.add((plural, namespace))
        there = [each for (space, _), each in self.objects[plural].items() if namespace in {"", space}]
        items = [copy.deepcopy(each) for each in there if _chosen(each, query)]
        return Answer(200, {"metadata": {"resourceVersion": self.last}, "items": items})

    def _watch(self, plural, namespace, query):
        watch = Watch(plural, namespace, query)
        for version, *change in self._history:
            if version > int(query["resourceVersion"]):
                watch.tell(*change)
        self._watches.append(watch)
        return Answer(200, queue=watch.queue, lag=self._lag)


class Watch:
    def __init__(self, plural, namespace, query):
        self.plural, self.namespace, self.query = plural, namespace, query
        self.queue = asyncio.Queue()

    def tell(self, plural, before, after, shown):
        if plural != self.plural or self.namespace not in {"", shown["metadata"].get("namespace", "")}:
            return
        was = before is not None and _chosen(before, self.query)
        now = after is not None and _chosen(after, self.query)
        if was or now:
            kind = "DELETED" if not now else "MODIFIED" if was else "ADDED"
            self.queue.put_nowait({"type": kind, "object": copy.deepcopy(shown)})


class Connection:
    """A client's connection: `transports.Api` and `writes.Sender`."""

    def __init__(self, server):
        self._server = server
        self.cut = False

    @contextlib.asynccontextmanager
    async def send(self, method, path, query, _patience, body=None, content_type="application/json"):
        if self.cut:
            raise transports.UnreachableError("cut off")
        yield await self._server.answer(method, path, query, json.loads(json.dumps(body)), content_type)

    def get(self, path, query, patience):
        return self.send("GET", path, query, patience)

    async def close(self):
        pass


def _parts(path):
    parts = [urllib.parse.unquote(each) for each in path.strip("/").split("/")]
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        return parts[2], parts[1], parts[3] if len(parts) > 3 else ""
    return parts[0], "", parts[1] if len(parts) > 1 else ""


def _chosen(document, query):
    labels = document["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def _merged(present, body):
    if not isinstance(body, dict) or not isinstance(present, dict):
        return copy.deepcopy(body)
    out = copy.deepcopy(present)
    for key, value in body.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merged(out.get(key, {}), value)
    return out


def _patched(present, operations):
    import jsonpatch  # noqa: PLC0415 - only these tests need it

    try:
        return jsonpatch.apply_patch(present, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise RefusedError(422, f"the patch does not apply: {error}") from error
