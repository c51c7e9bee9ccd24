"""What grows: the lists of one JobSet, the runtimes in the cache, and the strategies beside the one that is asked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml

from bench import reviews
from bench.peers import changes
from muster.strategies.frameworks import builtin
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader
from muster.webhook.cluster.readers import ClusterReader
from tests.support.plugins import make_strategy

__all__ = ["AXES", "Axis", "Case", "runtimes"]

_RUNTIME = "trl-distributed"
_POLICY = Policy(registry=builtin.load(plugins=False))


@dataclass(frozen=True, slots=True)
class Case:
    """One review and what stands around it.

    Attributes:
        body: the review of a creation.
        reader: the cluster.
        policy: the platform's settings.
    """

    body: bytes
    reader: ClusterReader = field(default_factory=InMemoryReader)
    policy: Policy = _POLICY


@dataclass(frozen=True, slots=True)
class Axis:
    """One quantity that grows.

    Attributes:
        name: what is counted.
        sizes: how many there are.
        make: from how many to the case.
    """

    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Case]


def runtimes(count: int) -> Iterator[dict[str, Any]]:
    """Yield the shipped TRL runtime, and copies of it under other names, until there are this many."""
    shipped = yaml.safe_load((reviews.RUNTIMES / f"{_RUNTIME}.yaml").read_text(encoding="utf-8"))
    for number in range(count):
        name = f"{_RUNTIME}-{number}" if number else _RUNTIME
        yield {**shipped, "metadata": {**shipped["metadata"], "name": name}}


def _replicated(count: int) -> Case:
    """Return a JobSet with more replicated jobs, each with one container and six variables."""
    job = changes.job()
    (trainer,) = job["spec"]["replicatedJobs"]
    for number in range(1, count):
        other = copy.deepcopy(trainer)
        other["name"] = f"side-{number}"
        del other["template"]["metadata"]
        container = other["template"]["spec"]["template"]["spec"]["containers"][0]
        container |= {"name": "side", "command": ["sleep", "infinity"], "args": []}
        job["spec"]["replicatedJobs"].append(other)
    return _case(job)


def _containers(count: int) -> Case:
    job = changes.job()
    containers = _pod(job)["containers"]
    containers += [{"name": f"side-{number}", "image": "example.org/side:1"} for number in range(1, count)]
    return _case(job)


def _env(count: int) -> Case:
    job = changes.job()
    env = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(count)]
    _pod(job)["containers"][0]["env"] = env
    return _case(job)


def _cached(count: int) -> Case:
    """Return a TrainJob whose runtime is one of many."""
    return Case(reviews.trainjob_review(), InMemoryReader(runtimes(count)))


def _registered(count: int) -> Case:
    """Return a JobSet for a registry of many strategies, of which Muster's own are some."""
    registry = builtin.load(plugins=False)
    for number in range(count - len(list(registry))):
        registry.register(make_strategy(framework=f"acme-{number}"), "acme 1.0")
    return Case(_case(changes.job()).body, policy=Policy(registry=registry))


def _case(job: dict[str, Any]) -> Case:
    return Case(orjson.dumps(changes.review(job)))


def _pod(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod


AXES = (
    Axis("replicated jobs of a JobSet", (1, 4, 16, 64), _replicated),
    Axis("containers of a pod", (1, 4, 16, 64), _containers),
    Axis("variables of a container", (8, 32, 128, 512), _env),
    Axis("runtimes in the cache", (10, 100, 1000, 5000), _cached),
    Axis("strategies", (10, 20, 50, 200), _registered),
)
"""All of them."""
