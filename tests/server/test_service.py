"""The whole service over TLS, as `muster serve` starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import ssl
import subprocess
import sys

import aiohttp
import orjson
import pytest
import yaml

from muster.webhook import configs
from muster.webhook.cluster import kinds
from muster.webhook.server import run, services
from muster.webhook.server.services import Service
from tests.server.conftest import ROOT, review

JSON = {"Content-Type": "application/json"}
NOWHERE = (
    "{clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}],"
    " contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}"
)


def written(folder, **more):
    config = {
        "server": {"host": "127.0.0.1", "port": 0, "readinessDelay": 0},
        "tls": {"selfSigned": True, "directory": str(folder)},
        "cluster": {"source": "files", "files": [str(ROOT / "manifests" / "runtimes")]},
        "audit": {"stdout": False, "file": {"path": str(folder / "audit.log")}},
    }
    path = folder / "muster.yaml"
    path.write_text(yaml.safe_dump(config | more))
    return path


@pytest.fixture
async def running(tmp_path):
    path = written(tmp_path)
    service = Service(configs.load(path), path)
    await service.start()
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    async with aiohttp.ClientSession(f"https://localhost:{service.port}") as http:

        async def call(method, where, **options):
            async with http.request(method, where, ssl=context, **options) as answer:
                return answer.status, await answer.read()

        yield service, call
    await service.stop()


async def test_it_is_ready_when_its_own_port_shows_a_verified_certificate(running):
    _, call = running
    assert await call("GET", "/readyz") == (200, b"ok\n")
    assert await call("GET", "/healthz") == (200, b"ok\n")


async def test_an_https_request_gets_the_bytes_that_muster_review_prints(running):
    _, call = running
    body = orjson.dumps(review())
    status, answered = await call("POST", "/mutate/trainjobs", data=body, headers=JSON)
    command = [sys.executable, "-m", "muster", "review"]
    printed = await asyncio.to_thread(subprocess.run, command, input=body, capture_output=True, check=True, cwd=ROOT)
    assert status == 200
    assert b"JSONPatch" in answered
    assert printed.stdout.strip() == answered


async def test_metrics_tell_requests_caches_and_certificates(running):
    _, call = running
    await call("POST", "/mutate/trainjobs", data=orjson.dumps(review()), headers=JSON)
    _, text = await call("GET", "/metrics")
    assert b'muster_admission_requests_total{decision="patched"' in text
    assert b'muster_certificate_expiry_seconds{certificate="leaf"} 7.' in text


async def test_every_decision_is_in_the_audit_file_after_the_stop(tmp_path):
    path = written(tmp_path)
    service = Service(configs.load(path), path)
    await service.start()
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    async with aiohttp.ClientSession(f"https://localhost:{service.port}") as http:
        for _ in range(20):
            async with http.post("/mutate/trainjobs", json=review(), ssl=context) as answer:
                assert answer.status == 200
    await service.stop()
    lines = [orjson.loads(line) for line in (tmp_path / "audit.log").read_bytes().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 22))
    assert [line["uid"] for line in lines[:20]] == ["u1"] * 20


async def test_whoever_asks_while_it_stops_is_answered_and_told_to_come_back_on_another_connection(tmp_path):
    path = written(tmp_path, server={"host": "127.0.0.1", "port": 0, "readinessDelay": 1})
    service = Service(configs.load(path), path)
    await service.start()
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    async with aiohttp.ClientSession(f"https://localhost:{service.port}") as http:

        async def ask():
            async with http.post("/mutate/trainjobs", json=review(), ssl=context) as answer:
                return answer.status, answer.headers.get("Connection")

        assert await ask() == (200, None)
        stopping = asyncio.create_task(service.stop())
        await asyncio.sleep(0)
        assert [await ask() for _ in range(3)] == [(200, "close")] * 3
        await stopping


async def test_connections_that_never_shake_hands_keep_nobody_out(tmp_path, monkeypatch):
    path = written(tmp_path, server={"host": "127.0.0.1", "port": 0, "readinessDelay": 0, "connectionLimit": 16})
    service = Service(configs.load(path), path)
    await service.start()
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    opened = []

    async def crowd(first):
        for _ in range(50):
            opened.append(await asyncio.open_connection("127.0.0.1", service.port))
            opened[-1][1].write(first)

    async with aiohttp.ClientSession(f"https://localhost:{service.port}") as http:
        for first in (b"", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n"):
            await crowd(first)
            async with http.post("/mutate/trainjobs", json=review(), ssl=context) as answer:
                assert answer.status == 200
        text = service.metrics.render().decode()
    assert 'muster_connections_closed_total{reason="crowded"}' in text
    assert sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("muster_connections{")) <= 16
    for reader, _ in opened[:50]:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    await service.stop()
    for _, writer in opened:
        writer.transport.abort()


async def test_a_handshake_that_is_not_ended_is_ended_within_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr("muster.front.acceptors.LOOK", 0.002)
    path = written(tmp_path)
    service = Service(configs.load(path), path)
    await service.start()
    for first in (b"", b"\x16\x03\x01\x02\x00"):
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(first)
        assert await reader.read() == b""
        writer.close()
    assert b'muster_connections_closed_total{reason="slow"} 2.0' in service.metrics.render()
    assert b'muster_connections{state="fresh"} 0.0' in service.metrics.render()
    await service.stop()


async def test_a_part_that_fails_to_start_stops_the_parts_before_it(tmp_path):
    path = written(tmp_path, cluster={"source": "files", "files": [str(tmp_path / "nothing.yaml")]})
    before = len(asyncio.all_tasks())
    with pytest.raises((ValueError, OSError), match=r"nothing\.yaml"):
        await Service(configs.load(path), path).start()
    assert len(asyncio.all_tasks()) == before


@pytest.mark.parametrize(
    ("tls", "said"), [({}, "certFile, keyFile, caFile missing"), ({"certFile": "/x"}, "keyFile, caFile missing")]
)
async def test_a_service_without_a_certificate_says_what_to_configure(tmp_path, tls, said):
    with pytest.raises(configs.ConfigError, match=said):
        await Service(configs.load(written(tmp_path, tls=tls))).start()


def started(path):
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "muster", "serve", "--config", str(path)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


@contextlib.contextmanager
def ended(process):
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stderr.close()


def test_a_signal_ends_the_process_in_order(tmp_path):
    with ended(started(written(tmp_path))) as process:
        for line in process.stderr:
            if orjson.loads(line)["message"] == "serving":
                break
        process.send_signal(signal.SIGTERM)
        messages = [orjson.loads(line)["message"] for line in process.stderr]
        assert process.wait(10) == 0
        assert messages == ["stopping", "stopped"]


async def test_each_kind_shows_its_share_of_the_memory_for_caches(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    cluster = {"source": "live", "kubeconfig": str(kubeconfig), "cacheLimit": 64 * 2**20}
    service = Service(configs.load(written(tmp_path, cluster=cluster)))
    await service.start()
    try:
        shown = service.metrics.render().decode()
    finally:
        await service.stop()
    for kind in kinds.KINDS.values():
        limit = re.search(rf'^muster_cluster_cache_limit_bytes{{kind="{kind.name}"}} (.*)$', shown, re.MULTILINE)
        assert float(limit[1]) == int(64 * 2**20 * kind.share)
        assert f'muster_cluster_cache_left_out{{kind="{kind.name}"}} 0.0' in shown


def test_kinds_that_two_caches_hold_are_added_up():
    sources = [lambda _: {"Pod": 1.0, "Namespace": 2.0}, lambda name: {"Namespace": float(len(name))}]
    assert services._added(sources, "bytes") == {"Pod": 1.0, "Namespace": 7.0}


def test_a_signal_ends_a_process_that_still_waits_for_the_api_server(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    cluster = {"source": "live", "kubeconfig": str(kubeconfig)}
    with ended(started(written(tmp_path, tls={"secret": {}}, cluster=cluster))) as process:
        for line in process.stderr:
            if orjson.loads(line)["message"] == "shared authorities not read, going on from memory":
                break
        process.send_signal(signal.SIGTERM)
        messages = [orjson.loads(line)["message"] for line in process.stderr]
        assert process.wait(20) == 0
        assert messages[-1] == "stopped before it served"


async def test_a_service_that_cannot_start_says_why():
    class Failing:
        async def start(self):
            raise OSError("the port is taken")

    with pytest.raises(OSError, match="the port is taken"):
        await run._started(Failing(), asyncio.Event())


async def test_a_service_that_was_never_started_can_be_stopped(tmp_path):
    service = Service(configs.load(written(tmp_path)))
    assert await service.problems() == {"start": "is under way"}
    await service.stop()


def test_a_wrong_configuration_ends_the_process_with_one_line(tmp_path):
    with ended(started(written(tmp_path, mode="sometimes"))) as process:
        assert process.wait(20) == 2
        assert process.stderr.read().startswith(f"muster: {tmp_path}/muster.yaml: mode: 'sometimes'")
