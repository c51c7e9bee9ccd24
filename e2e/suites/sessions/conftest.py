"""A Gateway for the tests of engines, two on one device for those of turns, and that of the chart with its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.claims import jobs
from e2e.suites.sessions import charts, databases, gateways
from e2e.suites.sessions.agents import Agents
from e2e.suites.sessions.charts import Release
from e2e.suites.sessions.databases import Database
from e2e.suites.sessions.gateways import Gateway
from e2e.suites.sessions.grounds import IMAGES, Ground
from e2e.suites.sessions.pairs import Pair
from e2e.suites.support import helms, nodeimages, spaces
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

_CLASS = "gpu.example.com"  # of the node tier's driver
_BUDGET = 384  # MiB of a device; an engine has 72 of its base model and up to 310 when it works


@pytest.fixture(scope="session")
def platform(kubectl: Kubectl, installation: Installation) -> Iterator[None]:
    """Muster with the profile of the engines, whose claim has room for those of two Gateways, and with two for one."""
    profile = _profile(kubectl)
    profiles = {name: {**profile, "maxSessions": 2} for name in gateways.NARROW}
    profiles[gateways.PROFILE] = profile
    with installation.configure({"profiles": profiles, "controllers": jobs.CONTROLLERS}):
        yield


def _profile(kubectl: Kubectl) -> dict[str, Any]:
    """Return the profile; skips the test where the cluster lacks what it needs."""
    nodeimages.need(kubectl, IMAGES.values())
    if kubectl.get("deviceclass", _CLASS) is None:
        pytest.skip(f"this cluster has no DeviceClass {_CLASS}")
    return {"deviceClass": _CLASS, "sharing": "shared", "claims": 1, "maxSessions": 4}


def _ground(kubectl: Kubectl, folder: Path, **more: Any) -> Ground:
    own, engines = (Space(spaces.named(name), kubectl).make() for name in ("gateways", "engines"))
    return Ground(kubectl, own, engines, folder / "models" / "muster" / "tiny", **more)


@pytest.fixture(scope="session")
def installed(kubectl: Kubectl, platform: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A Gateway that has no pod yet."""
    ground = _ground(kubectl, tmp_path_factory.mktemp("laptop"))
    made = Gateway(ground)
    try:
        ground.prepare(made.state)
        made.install()
        yield made
    finally:
        ground.remove()


@pytest.fixture
def gateway(installed: Gateway) -> Gateway:
    """The Gateway, which serves."""
    installed.begin()
    return installed


@pytest.fixture(scope="session")
def quiet(installed: Gateway) -> list[float]:
    """The mean reward of each step of a training that nobody disturbed."""
    installed.begin()
    with installed.training() as training:
        return training.end()


@pytest.fixture(scope="module")
def pair(kubectl: Kubectl, platform: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two Gateways that serve, whose engines take turns on one device into which one of them fits, and a third."""
    ground = _ground(kubectl, tmp_path_factory.mktemp("laptops"), hidden=1024)
    with _paired(Agents(ground, _BUDGET)) as made:
        yield made


@pytest.fixture(scope="module")
def restricted(kubectl: Kubectl, platform: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The same under agents with no right but those of their manifest, on a device that is always found free."""
    with _paired(Agents(_ground(kubectl, tmp_path_factory.mktemp("restricted")), None)) as made:
        yield made


@pytest.fixture(scope="module")
def spilling(
    kubectl: Kubectl, platform: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateway, ...]]:
    """Three Gateways without pods: one that waits for the first narrow profile, and two that take both."""
    ground = _ground(kubectl, tmp_path_factory.mktemp("spilling"))
    first, both = gateways.NARROW[0], ",".join(gateways.NARROW)
    made = tuple(Gateway(ground, name, profile=each) for name, each in zip("abc", (first, both, both), strict=True))
    try:
        ground.prepare(*(each.state for each in made))
        for each in made:
            each.install()
        yield made
    finally:
        ground.remove()


@pytest.fixture(scope="module")
def release(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """Muster with a Gateway of two replicas by helm, instead of the Muster that is installed."""
    databases.need()
    profile, folder = _profile(kubectl), tmp_path_factory.mktemp("chart")
    with helms.alone(kubectl, folder) as helm:
        ground = _ground(kubectl, folder, names=(charts.address(kubectl),))
        gateway, database = Gateway(ground), Database(ground)
        made = Release(helm, gateway, database, profile)
        try:
            ground.prepare(gateway.state, databases.FOLDER)
            database.install()
            made.install()
            yield made
        finally:
            helm.uninstall()
            ground.remove()


@contextmanager
def _paired(agents: Agents) -> Iterator[Pair]:
    ground = agents.ground
    first, second, third = (Gateway(ground, name, agents.socket) for name in "abc")
    try:
        ground.prepare(*(each.state for each in (first, second, third)))
        agents.install()
        for each in (first, second, third):
            each.install()
        for each in (first, second):
            each.begin()
        yield Pair(agents, (first, second), third)
    finally:
        ground.remove()
        agents.remove()
