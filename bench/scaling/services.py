"""What the service costs with its audit, its reports and further replicas, and with many runtimes in its cache.

Each is `muster serve` as the cluster's own component is, with a live cache of the same API server. Reviews of JobSets
are sent to it directly, over TLS and kept connections, so that neither the API server nor another webhook is measured.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from bench import clients, figures
from bench.peers import changes, costs, markdown, servers
from bench.peers.labs import Lab
from bench.scaling import axes
from e2e.cluster import places, processes, upstream
from e2e.cluster.errors import ClusterError

__all__ = [
    "CACHED",
    "SETTINGS",
    "Cached",
    "Served",
    "Setting",
    "cached",
    "cached_table",
    "served",
    "served_table",
    "taken_turns",
    "trust",
]

_ROUNDS, _SECONDS, _CONNECTIONS = 5, 1.5, 16
_COMPONENT, _PATH = "muster", "/mutate/jobsets"
_REPORTS = "openreports"
_RIGHTS = places.REPOSITORY / "manifests" / "overlays" / "production" / f"rbac-{_REPORTS}.yaml"
_RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
_WRITERS = 4  # threads that create runtimes

CACHED = (10, 1_000, 5_000)
"""Runtimes in the cache, beside those that the cluster has from its start."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to run the service.

    Attributes:
        name: for people and the CSV.
        file: whether records of audit go to a file of their own; to standard output otherwise. It does not run without.
        reports: whether each namespace gets a report.
        replicas: how many of it run.
    """

    name: str
    file: bool = True
    reports: bool = False
    replicas: int = 1


SETTINGS = (
    Setting("audit to a file"),
    Setting("audit to standard output", file=False),
    Setting("audit to a file, and reports", reports=True),
    Setting("audit to a file, 3 replicas", replicas=3),
)
"""All that are compared."""


@dataclass(frozen=True, slots=True)
class Served:
    """One setting in one round.

    Attributes:
        setting: its name.
        round: its number, from 1.
        rate: answers per second of all replicas together.
        p50, p99: ms.
        cpu: processor seconds of all replicas for 1,000 answers.
        memory: resident MiB of all replicas afterwards.
    """

    setting: str
    round: int
    rate: float
    p50: float
    p99: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Cached:
    """One number of runtimes in the cache.

    Attributes:
        runtimes: how many.
        started: seconds from the start of the process until it was ready.
        rest: resident MiB then.
        loaded: resident MiB after a load.
        cpu: processor seconds for 1,000 answers of that load.
    """

    runtimes: int
    started: float
    rest: float
    loaded: float
    cpu: float


def served(lab: Lab, rounds: int = _ROUNDS, seconds: float = _SECONDS) -> list[Served]:
    """Give the cluster what reports need, and take turns in all `SETTINGS`.

    Raises:
        ClusterError: one does not start.
    """
    lab.apply(upstream.report_definitions()[_REPORTS])
    upstream.established(lab.kubectl, lab.where.kubeconfig)
    lab.apply(*yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8")))
    return taken_turns(lab, SETTINGS, rounds, seconds)


def taken_turns(lab: Lab, settings: Sequence[Setting], rounds: int, seconds: float) -> list[Served]:
    """Start the service in some settings, all at once, and load one after the other.

    Raises:
        ClusterError: one does not start.
    """
    running = {setting: _names(number, setting) for number, setting in enumerate(settings)}
    try:
        for setting, names in running.items():
            for name in names:
                _start(lab, name, setting)
        found = []
        for number in range(1, rounds + 1):
            for setting, names in list(running.items())[:: 1 if number % 2 else -1]:
                found.append(_loaded(lab, setting, names, number, seconds))
        return found
    finally:
        for names in running.values():
            for name in names:
                processes.end(lab.where, name)


def cached(lab: Lab, counts: Sequence[int] = CACHED, seconds: float = _SECONDS) -> Iterator[Cached]:
    """Create more and more runtimes, and start and load the service beside each number of them."""
    made, setting = 0, SETTINGS[0]
    for count in counts:
        _create(lab, made, count)
        made = count
        began = time.monotonic()
        try:
            _start(lab, "cached", setting)
            started, rest = time.monotonic() - began, costs.memory(lab.pids("cached"))
            load = _loaded(lab, setting, ["cached"], 1, seconds)
            yield Cached(count, started, rest, load.memory, load.cpu)
        finally:
            processes.end(lab.where, "cached")


def served_table(found: Iterable[Served]) -> str:
    """Return the table, a row for each setting."""
    by: dict[str, list[Served]] = {}
    for each in found:
        by.setdefault(each.setting, []).append(each)
    heads = ("setting", "JobSets/s", "p50, ms", "p99, ms", "CPU s/1,000", "RSS, MiB")
    rows = [
        (name, *(str(figures.rounds([getattr(each, key) for each in some])) for key in _FIELDS))
        for name, some in sorted(by.items(), key=lambda entry: [each.name for each in SETTINGS].index(entry[0]))
    ]
    return markdown.table(heads, rows)


_FIELDS = ("rate", "p50", "p99", "cpu", "memory")


def cached_table(found: Iterable[Cached]) -> str:
    """Return the table, a row for each number of runtimes."""
    heads = ("runtimes in the cache", "start to ready, s", "RSS at rest, MiB", "RSS after load, MiB", "CPU s/1,000")
    rows = [
        (f"{each.runtimes:,}", f"{each.started:.2f}", f"{each.rest:.0f}", f"{each.loaded:.0f}", f"{each.cpu:.2f}")
        for each in found
    ]
    return markdown.table(heads, rows)


def _names(number: int, setting: Setting) -> list[str]:
    return [f"serving-{number}-{replica}" for replica in range(setting.replicas)]


def _start(lab: Lab, name: str, setting: Setting) -> None:
    """Start one, by the configuration of the cluster's own component, and wait until it is ready."""
    port = lab.port(name)
    config: dict[str, Any] = yaml.safe_load((lab.where.configs / f"{_COMPONENT}.yaml").read_text(encoding="utf-8"))
    config["server"] |= {"port": port}
    config["audit"] = {"stdout": not setting.file, "reports": _REPORTS if setting.reports else "none"}
    if setting.file:
        config["audit"]["file"] = {"path": str(lab.where.log(f"{name}-audit"))}
    path = lab.where.configs / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    like = processes.Component.load(lab.where, _COMPONENT)
    command = [str(path) if word.endswith(f"/{_COMPONENT}.yaml") else word for word in like.command]
    process = processes.start(lab.where, name, command, dict(like.environment))
    server = servers.Server(f"https://127.0.0.1:{port}", trust(lab.where))

    def ready() -> bool:
        if process.poll() is not None:
            raise ClusterError(f"{name} ended at its start; see {lab.where.log(name)}")
        return server.ready("/readyz")

    servers.until(f"{name} does not become ready", ready)


def trust(where: places.Places) -> Path:
    """Return the file with the authority that all of them serve with: it is that of the cluster's own component."""
    return where.credentials / _COMPONENT / "k8s-webhook-server" / "serving-certs" / "ca.crt"


def _loaded(lab: Lab, setting: Setting, names: Sequence[str], number: int, seconds: float) -> Served:
    review = changes.review(changes.job())
    review["request"] |= {"dryRun": False, "options": None}
    body, context = orjson.dumps(review), ssl.create_default_context(cafile=trust(lab.where))
    ports = [lab.port(name) for name in names]
    before = sum(lab.spent(name) for name in names)
    loads = asyncio.run(_drive(ports, body, seconds, context))
    spent = sum(lab.spent(name) for name in names) - before
    latencies = [each * 1e3 for load in loads for each in load.latencies]
    return Served(
        setting.name,
        number,
        sum(load.rate for load in loads),
        figures.percentile(latencies, 0.5),
        figures.percentile(latencies, 0.99),
        spent / len(latencies) * 1000,
        sum(costs.memory(lab.pids(name)) for name in names),
    )


async def _drive(ports: Sequence[int], body: bytes, seconds: float, context: ssl.SSLContext) -> list[clients.Load]:
    shares = [_CONNECTIONS // len(ports) + (index < _CONNECTIONS % len(ports)) for index in range(len(ports))]
    return await asyncio.gather(
        *(
            clients.drive(port, _PATH, body, connections=share, seconds=seconds, context=context)
            for port, share in zip(ports, shares, strict=True)
        )
    )


def _create(lab: Lab, made: int, count: int) -> None:
    """Create runtimes until there are this many of ours, by the API server, whose webhooks judge each."""
    api = lab.api()

    def post(document: dict[str, Any]) -> None:
        answer = api.post(_RUNTIMES, document)
        if answer.get("kind") != document["kind"]:
            raise ClusterError(f"the API server does not take a runtime: {json.dumps(answer)[:300]}")

    documents = list(axes.runtimes(count))[made:]
    for document in documents:
        document["metadata"]["name"] = f"many-{document['metadata']['name']}"
    with ThreadPoolExecutor(_WRITERS) as writers:
        for _ in writers.map(post, documents):
            pass
