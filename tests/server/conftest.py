"""A listener on loopback with everything real behind it but the audit sink."""

from __future__ import annotations

import asyncio
import contextlib
import io
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
import orjson
import pytest
import yaml

from muster.front.listeners import Listener
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader
from muster.webhook.metrics import Metrics
from muster.webhook.server import handlers
from muster.webhook.server.resolvers import Resolver

ROOT = Path(__file__).parents[2]


def documents(*paths):
    return [each for path in paths for each in yaml.safe_load_all((ROOT / path).read_text()) if each]


RUNTIME = documents("manifests/runtimes/trl-distributed.yaml")
TRAINJOB = documents("manifests/examples/01-trl-sft-two-nodes.yaml")[0]


def review(document=TRAINJOB, operation="CREATE", old=None, **request):
    wanted = {"uid": "u1", "operation": operation, "kind": {"kind": document["kind"]}, "namespace": "team-a"}
    wanted |= {"object": document, "oldObject": old} | request
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": wanted}


@dataclass
class Records:
    """Keeps audit records, or refuses them."""

    kept: list = field(default_factory=list)
    full: bool = False

    def submit(self, record):
        self.kept.append(record)
        return not self.full


@dataclass
class Webhook:
    """A running listener and what is behind it."""

    url: str
    http: aiohttp.ClientSession
    records: Records
    metrics: Metrics
    listener: Listener
    resolver: Resolver

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    async def post(self, path, body, **options):
        data = io.BytesIO(body if isinstance(body, bytes) else orjson.dumps(body))
        options.setdefault("headers", {"Content-Type": "application/json"})
        async with self.http.post(self.url + path, data=data, **options) as answer:
            return answer.status, await answer.read()

    async def admit(self, path="/mutate/trainjobs", **wanted):
        status, body = await self.post(path, review(**wanted))
        assert status == 200, body
        return orjson.loads(body)["response"]


@pytest.fixture
async def serve():
    """Start a webhook; ended with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(reader=None, fetch=None, policy=None, limits=(200, 4.0), body_limit=7 * 1024 * 1024, **more):
            metrics, records = Metrics(), Records()
            reader = InMemoryReader(RUNTIME) if reader is None else reader
            asking = more.get("asking")
            resolver = Resolver(reader, fetch, metrics, asking and asking(metrics))
            admission = handlers.Admission(partial(_same, policy or Policy()), resolver, records, metrics, limits)
            table = {
                path: partial(admission.handle, phase=phase, kind=kind)
                for path, (phase, kind) in handlers.ADMISSION_PATHS.items()
            }
            table |= more.get("further", {})
            listener = Listener(table, body_limit, 1.0, more.get("connection_limits"), metrics.connection_closed)
            port = await listener.open("127.0.0.1", 0, None)
            stack.push_async_callback(listener.close)
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return Webhook(f"http://127.0.0.1:{port}", http, records, metrics, listener, resolver)

        yield start


class Clock:
    """The clock of the running loop, which a test puts forward: what waits for a deadline meets it by an event."""

    def __init__(self, loop):
        self._ahead, self._time = 0.0, loop.time
        loop.time = lambda: self._time() + self._ahead

    def forward(self, seconds):
        self._ahead += seconds


@pytest.fixture
async def clock():
    return Clock(asyncio.get_running_loop())


def _same(policy):
    return policy
