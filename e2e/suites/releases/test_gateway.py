"""Muster and a Gateway of two replicas from one chart, with a journal in PostgreSQL; each part is killed in a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.suites.claims import jobs
from e2e.suites.releases.databases import SECRET as JOURNAL
from e2e.suites.releases.databases import Database
from e2e.suites.releases.helms import Helm
from e2e.suites.sessions import gateways
from e2e.suites.sessions.gateways import Gateway
from e2e.suites.sessions.grounds import BASE, CLAIM, IMAGES, PATIENCE, SECRET, Ground
from e2e.suites.support import nodeimages, spaces, waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough]

_CLASS = "gpu.example.com"  # of the node tier's driver


class Released(Gateway):
    """A Gateway that helm has installed."""

    def pods(self) -> list[dict[str, Any]]:
        """Return the replicas that are ready."""
        pods = self.space.pods(self._labels)
        return [each for each in pods if gateways.is_ready(each) and "deletionTimestamp" not in each["metadata"]]

    def until_served(self) -> list[dict[str, Any]]:
        """Wait until both replicas serve, and return them."""
        waits.until("two replicas", lambda: len(self.pods()) == 2, PATIENCE)
        return self.pods()


def _image(name: str) -> dict[str, str]:
    repository, _, tag = IMAGES[name].rpartition(":")
    return {"registry": "", "repository": repository, "tag": tag}


def _values(ground: Ground) -> dict[str, Any]:
    profile = {"deviceClass": _CLASS, "sharing": "shared", "claims": 1, "maxSessions": 2}
    gateway = {
        "enabled": True,
        "namespace": ground.space.name,
        "replicas": 2,
        "image": _image("gateway"),
        "model": {"name": str(ground.base), "folder": BASE},
        "storage": {"claimName": CLAIM},
        "database": {"secretName": JOURNAL},
        "tls": {"secretName": SECRET},
        "engines": {"namespace": ground.engines.name, "image": _image("engine"), "profile": gateways.PROFILE},
    }
    config = {"profiles": {gateways.PROFILE: profile}, "controllers": jobs.CONTROLLERS}
    return {"gateway": gateway, "config": config}


@pytest.fixture(scope="module")
def database(
    kubectl: Kubectl, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Released, Database]]:
    """The Gateway and its database."""
    nodeimages.need(kubectl, IMAGES.values())
    own, engines = (Space(spaces.named(name), kubectl).make() for name in ("gateways", "engines"))
    ground = Ground(kubectl, own, engines, tmp_path_factory.mktemp("laptop") / "models" / "muster" / "tiny")
    try:
        released, journal = Released(ground), Database(own)
        ground.prepare(released.state)
        journal.install()
        helm.install(_values(ground))
        released.until_served()
        yield released, journal
    finally:
        helm.uninstall()
        ground.remove()


@pytest.fixture
def gateway(database: tuple[Released, Database]) -> Released:
    """The Gateway, of which both replicas serve."""
    database[0].until_served()
    return database[0]


@pytest.fixture(scope="module")
def quiet(database: tuple[Released, Database]) -> list[float]:
    """The mean reward of each step of a training that nobody disturbed."""
    with database[0].training() as training:
        return training.end()


def test_training_through_two_replicas_comes_to_a_mean_reward_of_one(quiet: list[float]) -> None:
    assert len(quiet) == 10
    assert quiet[-1] == 1.0


@pytest.mark.parametrize("number", [0, 1])
def test_a_run_goes_on_to_the_same_rewards_when_a_replica_is_killed(
    gateway: Released, quiet: list[float], number: int
) -> None:
    with gateway.training() as training:
        training.until(3)
        killed = sorted(gateway.until_served(), key=lambda each: str(each["metadata"]["name"]))[number]
        gateway.ground.kill(killed)
        disturbed = training.end()
    assert disturbed == quiet


def test_a_run_goes_on_to_the_same_rewards_when_postgresql_is_killed(
    gateway: Released, database: tuple[Released, Database], quiet: list[float]
) -> None:
    with gateway.training() as training:
        training.until(3)
        database[1].kill()
        disturbed = training.end()
    assert disturbed == quiet


def test_nothing_of_the_engines_is_left_when_the_release_is_uninstalled(gateway: Released, helm: Helm) -> None:
    for role in ("trainer", "sampler"):
        gateway.engine(role)
    helm.uninstall()
    waits.until("the engines to be gone", lambda: not gateway.left(), 60)
