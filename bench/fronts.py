"""HTTP servers in front of the same handler: `python -m bench.fronts`.

It wants a Python that has granian, hypercorn, and uvicorn with httptools beside what Muster runs on; they are not
dependencies of Muster. Each serves TLS with kept connections and HTTP/1.1, in one worker on asyncio's own loop;
`aiohttp` is the listener of the product with its limits, which the others lack. All run at the same time and get the
same requests in turns. `empty` answers at once, so that it is the server alone, and `mutate` makes the decision of
`bench-peers` with its record.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from bench import figures, pairs, reviews
from bench.peers import changes
from muster.audit import sinks, writer
from muster.certs import authorities, leaves, material_stores, materials
from muster.front.listeners import Listener
from muster.webhook.admission.policies import Policy
from muster.webhook.metrics import Metrics
from muster.webhook.server import handlers
from muster.webhook.server.resolvers import Resolver

_ROUNDS, _REQUESTS = 7, 400
_SERVERS = ("aiohttp", "granian", "hypercorn", "uvicorn")
_PATHS = {"empty": "/empty", "mutate": "/mutate/jobsets"}
_ANSWER = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"1","allowed":true}}'


def _admission() -> handlers.Admission:
    policy, metrics = Policy(), Metrics()
    recorder = writer.AuditWriter([sinks.RotatingFileSink(Path(os.environ["FOLDER"], f"{os.getpid()}.log"))])
    return handlers.Admission(lambda: policy, Resolver(reviews.reader(), None, metrics), recorder, metrics, (256, 10.0))


class _App:
    """The handler as an ASGI application; made by the worker that serves it."""

    def __init__(self) -> None:
        self._admission: handlers.Admission | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if scope["path"] == _PATHS["empty"]:
            answer = _ANSWER
        else:
            self._admission = self._admission or _admission()
            answer = (await self._admission.admit(body, "mutate", "JobSet")).body
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


app = _App()


def serve(name: str, port: int, folder: str) -> None:
    """Serve with one of the servers until the process is ended."""
    cert, key = f"{folder}/tls.crt", f"{folder}/tls.key"
    if name == "aiohttp":
        asyncio.run(_aiohttp(port, cert, key))
    elif name == "granian":
        made = importlib.import_module("granian").Granian
        options = {"interface": "asgi", "loop": "asyncio", "http": "1", "log_enabled": False}
        made("bench.fronts:app", "127.0.0.1", port, ssl_cert=Path(cert), ssl_key=Path(key), **options).serve()
    elif name == "hypercorn":
        config = importlib.import_module("hypercorn.config").Config()
        config.bind, config.certfile, config.keyfile = [f"127.0.0.1:{port}"], cert, key
        config.alpn_protocols = ["http/1.1"]
        asyncio.run(importlib.import_module("hypercorn.asyncio").serve(app, config))
    else:
        options = {"http": "httptools", "loop": "asyncio", "log_level": "error", "access_log": False}
        importlib.import_module("uvicorn").run(app, port=port, ssl_certfile=cert, ssl_keyfile=key, **options)


async def _aiohttp(port: int, cert: str, key: str) -> None:
    async def empty(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=_ANSWER, content_type="application/json")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    mutate = partial(_admission().handle, phase="mutate", kind="JobSet")
    listener = Listener({_PATHS["empty"]: empty, _PATHS["mutate"]: mutate}, 8 << 20, 1.0)
    await listener.open("127.0.0.1", port, context)
    await asyncio.Event().wait()


def _certify(folder: Path) -> None:
    now = datetime.now(UTC)
    authority = authorities.create(now)
    leaf = leaves.issue(authority, ["localhost"], now)
    material_stores.save(folder, authority, materials.from_authority(authority, leaf))


def _started(name: str, folder: str) -> pairs.Server:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.fronts", name, str(port), folder]
    environment = {**os.environ, "FOLDER": folder}
    process = subprocess.Popen(command, start_new_session=True, env=environment, text=True)  # noqa: S603  # our own
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    return pairs.Server(process, port, ssl.create_default_context(cafile=f"{folder}/ca.crt"))


def run() -> None:
    """Print the processor time of a request, and its ratio to aiohttp's, for each server."""
    names = [each for each in _SERVERS if importlib.util.find_spec(each)]
    body = orjson.dumps(changes.review(changes.job()))
    with tempfile.TemporaryDirectory() as folder:
        _certify(Path(folder))
        servers = {name: _started(name, folder) for name in names}
        try:
            for (what, path), connections in ((each, count) for each in _PATHS.items() for count in (1, 16)):
                rounds = [
                    {name: pairs.costs(each, path, body, connections) for name, each in servers.items()}
                    for _ in range(_ROUNDS + 1)
                ]
                for name in names:
                    costs = figures.rounds([each[name] for each in rounds[1:]])
                    ratios = figures.rounds([each[name] / each["aiohttp"] for each in rounds[1:]])
                    print(f"{what:8} {connections:3} {name:10} {costs!s:>24} us {ratios!s:>20}", flush=True)
        finally:
            for each in servers.values():
                os.killpg(each.process.pid, 15)
                each.process.wait(30)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        run()
