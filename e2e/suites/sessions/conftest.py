"""One Gateway for all tests of this suite, in a Muster that has a profile for its engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.claims import jobs
from e2e.suites.sessions import gateways
from e2e.suites.sessions.gateways import Gateway
from e2e.suites.support import nodeimages, spaces
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

_CLASS = "gpu.example.com"  # of the node tier's driver


@pytest.fixture(scope="session")
def installed(
    kubectl: Kubectl, installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A Gateway that has no pod yet."""
    nodeimages.need(kubectl, gateways.IMAGES.values())
    if kubectl.get("deviceclass", _CLASS) is None:
        pytest.skip(f"this cluster has no DeviceClass {_CLASS}")
    profile = {"deviceClass": _CLASS, "sharing": "shared", "claims": 1, "maxSessions": 2}
    own, engines = (Space(spaces.named(name), kubectl).make() for name in ("gateways", "engines"))
    base = tmp_path_factory.mktemp("laptop") / "models" / "muster" / "tiny"
    made = Gateway(kubectl, own, engines, base)
    with installation.configure({"profiles": {gateways.PROFILE: profile}, "controllers": jobs.CONTROLLERS}):
        try:
            made.install()
            yield made
        finally:
            for space in (own, engines):
                space.remove()
            made.remove()


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
