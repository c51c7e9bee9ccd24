"""What the caches cost in memory: an honest cluster, and one in which an author creates whatever etcd takes.

A process of its own plays the API server. It makes each object when it is asked for, so that only the caches' memory is
measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from muster.audit import known
from muster.kube import clients
from muster.strategies.frameworks import builtin
from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster import kinds, live, memory, reflector
from muster.webhook.server import endings

__all__ = ["run"]

_LIMIT = 512  # MiB that the chart gives a pod
_RUNTIME = "metadata: {name: trl}\n" + "".join(f"line{number}: some text of a runtime\n" for number in range(90))
_JOBS, _NODES, _NAMESPACES, _CHANGES = 10_000, 5_000, 100, 30
_HOSTILE = 300_000_000  # bytes of the hostile objects of a kind, of which small ones count as 10 kB
_EACH, _MIXED = (1_000_000, 100_000, 2_000), 1
_THREADS, _PAUSE = 4, 3.0  # that decide about large jobs in the mixed case, and seconds between two of each
_PAGE = 500_000  # bytes of a page before its signs are escaped


def _job(number: int, size: int) -> dict[str, Any]:
    metadata = {"name": f"job-{number}", "namespace": f"team-{number % _NAMESPACES}"}
    return {"metadata": metadata, "spec": {"trainer": {"args": ["x" * size]}}}


def _node(number: int) -> dict[str, Any]:
    labels = {f"feature.node.kubernetes.io/x-{each}": "true" for each in range(60)}
    return {"metadata": {"name": f"n{number}", "labels": labels}}


def _snapshot(number: int, text: str, namespace: str) -> dict[str, Any]:
    return {"metadata": {"name": f"j{number}-runtime-snapshot", "namespace": namespace}, "data": {"runtime": text}}


def _evil(number: int, size: int) -> dict[str, Any]:
    """Return a snapshot whose text is like no other, of signs that the API server writes as six characters each."""
    return _snapshot(number, f"{number}-{time.monotonic_ns()}" + "<" * size, "team-evil")


def _objects(plural: str, size: int) -> list[Callable[[], dict[str, Any]]]:
    """Return what makes the objects of one kind; also hostile ones of `size` bytes, when it is not 0."""
    sizes = _sizes(size)
    evil = range(len(sizes))
    if plural == "trainjobs":
        own = [partial(_job, number, 4_000) for number in range(_JOBS)]
        return [*own, *(partial(_job, (_JOBS + number) * _NAMESPACES, sizes[number]) for number in evil)]
    if plural == "configmaps":
        own = [partial(_snapshot, number, _RUNTIME, f"team-{number % _NAMESPACES}") for number in range(_JOBS)]
        return [*own, *(partial(_evil, number, sizes[number]) for number in evil)]
    if plural in ("trainingruntimes", "resourceclaimtemplates"):
        return [partial(_job, number * _NAMESPACES, sizes[number]) for number in evil[::4]]
    return [partial(_node, number) for number in range(_NODES)] if plural == "nodes" else []


def _sizes(size: int) -> list[int]:
    """Return the bytes of the hostile objects of a kind; for `_MIXED`, of all sizes in turns."""
    if size != _MIXED:
        return [size] * (bool(size) * _HOSTILE // max(size, 10_000))
    share = _HOSTILE // len(_EACH)
    return [each for size in _EACH for each in [size] * (share // max(size, 10_000))]


def _serve(size: int) -> None:
    """Play the API server on a port that is printed, until stdin ends."""
    objects: dict[str, list[Callable[[], dict[str, Any]]]] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        plural = request.path.rsplit("/", 1)[-1]
        if request.query.get("watch"):
            return await _watch(request, plural, size)
        made = objects.setdefault(plural, _objects(plural, size))
        start = int(request.query.get("continue", 0))
        items = _page(made[start : start + int(request.query["limit"])])
        end = start + len(items)
        more = {"continue": str(end)} if end < len(made) else {}
        return _answered({"metadata": {"resourceVersion": "1", **more}, "items": items})

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.to_thread(sys.stdin.read)

    asyncio.run(main())


def _page(objects: Iterable[Callable[[], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the next objects, fewer than asked for where they are large: this server shall not be what is slow."""
    items: list[dict[str, Any]] = []
    taken = 0
    for make in objects:
        items.append(make())
        taken += len(json.dumps(items[-1]))
        if taken > _PAGE:
            break
    return items


async def _watch(request: web.Request, plural: str, size: int) -> web.StreamResponse:
    """Send changes of hostile objects as fast as they are read, and then a bookmark each minute."""
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):  # the reader has seen enough
        for number in range(_CHANGES if plural == "configmaps" and size else 0):
            item = _evil(number % 3, _EACH[number % 3] if size == _MIXED else size)
            item["metadata"]["resourceVersion"] = "2"
            await response.write(_line({"type": "MODIFIED", "object": item}))
        while True:
            await response.write(_line({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "3"}}}))
            await asyncio.sleep(60)
    return response


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).replace("<", "\\u003c").encode() + b"\n"


def _answered(document: dict[str, Any]) -> web.Response:
    return web.Response(body=_line(document), content_type="application/json")


def _large_review() -> bytes:
    """Return a review of a JobSet at the limits of the budget."""
    env = [{"name": f"E{number}", "value": "$(HOME)/some words " * 3} for number in range(4_900)]
    command = ["bash", "-c", "export A=$B; if a; then b; fi\n" * 2_000 + "torchrun --nnodes=7 train.py"]
    container = {"name": "node", "image": "x", "command": command, "env": env}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    jobs = [{"name": "node", "replicas": 1, "template": {"spec": {"parallelism": 2, "template": pods}}}]
    labels = {"trainer.kubeflow.org/framework": "torch"}
    head = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "x", "labels": labels}}
    kind = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"}
    request = {"uid": "1", "kind": kind, "operation": "CREATE", "namespace": "team-evil", "name": "x"}
    whole = {**request, "object": {**head, "spec": {"replicatedJobs": jobs}}}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole}).encode()


def _decide(body: bytes, stopped: threading.Event) -> int:
    """Decide about a review again and again, and make answer and record; return how often."""
    policy, reader, count = Policy(registry=builtin.load(plugins=False)), memory.InMemoryReader(()), 0
    while not stopped.wait(_PAUSE):
        for phase in ("mutate", "validate"):
            decision = decisions.evaluate(reviews.parse(body, phase), reader, policy)
            record = endings.end_surely(decision, policy, time.perf_counter()).record
            count += known.record(record) is not None if record else 0
    return count


async def _follow(kubeconfig: Path, threads: int) -> None:
    """Fill the caches, while threads decide about large jobs, and print what they take."""
    stopped, body = threading.Event(), _large_review()
    reviewing = [asyncio.create_task(asyncio.to_thread(_decide, body, stopped)) for _ in range(threads)]
    api = await clients.connect(kubeconfig)
    reader = live.LiveReader(kinds.KINDS.values(), api, pace=reflector.Pace(listing=600))
    before = _memory("VmRSS")
    reader.start()
    started = time.monotonic()
    while not reader.synced:  # noqa: ASYNC110 - a reader knows no events
        await asyncio.sleep(0.1)
    await asyncio.sleep(5)
    figures = {name: reader.figure(name) for name in ("bytes", "entries", "left_out")}
    for kind in figures["entries"]:
        used, held, left = (figures[name][kind] for name in ("bytes", "entries", "left_out"))
        if held or left:
            print(f"  {kind}: {used / 2**20:.1f} MiB for {held:,.0f} objects, {left:,.0f} left out")
    after, most, took = _memory("VmRSS"), _memory("VmHWM"), time.monotonic() - started
    print(f"  resident: {before:.0f} MiB before, {after:.0f} after {took:.0f} s, {most:.0f} at most")
    stopped.set()
    if reviewing:
        print(f"  {sum(await asyncio.gather(*reviewing)):,} reviews of {len(body):,} bytes were decided meanwhile")
    await reader.stop()
    await api.close()


def _memory(name: str) -> float:
    """Return a figure of this process in MiB."""
    line = next(each for each in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if name in each)
    return int(line.split()[1]) / 1024


def _measure(size: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(  # noqa: S603  # our own command
            [sys.executable, "-m", "bench.caches", "serve", str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as server,
    ):
        url = f"http://127.0.0.1:{int(server.stdout.readline()) if server.stdout else 0}"
        config = {
            "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
        path = Path(folder, "kubeconfig")
        path.write_text(json.dumps(config), encoding="utf-8")
        threads = _THREADS if size == _MIXED else 0
        subprocess.run([sys.executable, "-m", "bench.caches", "follow", str(path), str(threads)], check=True)  # noqa: S603  # as above
        server.terminate()


def run() -> None:
    """Print the memory of a process that follows an honest cluster, and hostile ones."""
    for size in (0, *_EACH, _MIXED):
        objects = f"and 300 MB of hostile objects of {size:,} bytes" if size else "and nothing hostile"
        if size == _MIXED:
            objects = f"and 300 MB of hostile objects of all these sizes, beside large reviews on {_THREADS} threads"
        print(f"{_JOBS:,} TrainJobs with snapshots, {_NODES:,} nodes, {objects}:", flush=True)
        _measure(size)
    print(f"a pod of the chart may take {_LIMIT} MiB")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(int(sys.argv[2]))
    else:
        asyncio.run(_follow(Path(sys.argv[2]), int(sys.argv[3])))
