"""A platform that has switched the guard on, and nodes that have images which are not Muster's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.guard import jobs, platforms
from e2e.suites.support import nodeimages
from e2e.suites.support.kubectls import Kubectl

# Two seconds at most until another replica leads: nothing here waits for leases.
_LEASE = {"duration": 4, "deadline": 3, "retry": 0.5}
_CONFIG = {"guard": {"inject": "open", "image": platforms.IMAGE}, "trainings": {"enabled": True, "lease": _LEASE}}

_FAKE = "kwok.x-k8s.io/node"


@pytest.fixture(scope="package", autouse=True)  # the suites after this one have their own platform
def platform(kubectl: Kubectl) -> Iterator[None]:
    """Switches the guard on for all jobs that documents leave open, and Trainer's statuses."""
    nodeimages.need(kubectl, {jobs.IMAGES["pip"]})
    with platforms.with_status(kubectl), platforms.configured(kubectl, _CONFIG):
        yield


@pytest.fixture
def real(kubectl: Kubectl) -> Iterator[list[str]]:
    """The nodes that run containers; the others take no pods meanwhile, as if somebody had cordoned them."""
    every = {each["metadata"]["name"]: each["metadata"].get("annotations") or {} for each in kubectl.all("nodes")}
    fake = [name for name, annotations in every.items() if _FAKE in annotations]
    for name in fake:
        kubectl.run("cordon", name).expect()
    yield sorted(set(every) - set(fake))
    for name in fake:
        kubectl.run("uncordon", name).expect()
