"""Fixtures of the claims suite: devices of a real driver where there is one, else ResourceSlices for a fake node.

Devices belong to the whole cluster, so that these tests run one after the other, each when all devices are free.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.suites.pods import trainings
from e2e.suites.support import devices as claims
from e2e.suites.support.devices import Devices
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

_REAL = "gpu.example.com"  # the driver of the node tier, and its DeviceClass
_WRITTEN = "gpu.e2e.muster.dev"
_COUNT = 8
_FAKE = "kwok.x-k8s.io/node"
SESSIONS = 2
SESSIONS_CLASS = "e2e-sessions"
MAPPED_CLASS = "e2e-mapped"
MAPPED = "e2e.muster.dev/gpu"


@pytest.fixture(scope="session")
def all_devices(kubectl: Kubectl) -> Iterator[Devices]:
    """The devices; skip where there are none and no KWOK node that could be given some."""
    if real := _published(kubectl):
        yield real
        return
    fakes = kubectl.all("nodes", selector="type=kwok")
    if not fakes:
        pytest.skip(f"this cluster has neither the DRA driver {_REAL} nor a node of KWOK (label type=kwok)")
    node = fakes[0]["metadata"]["name"]
    offered = claims.slice_of("e2e-claims", _WRITTEN, node, (_device(number) for number in range(_COUNT)))
    known = claims.device_class(_WRITTEN, f"device.driver == '{_WRITTEN}'")
    kubectl.apply(offered, known).expect()
    yield Devices(_WRITTEN, _WRITTEN, _COUNT, node)
    kubectl.delete("resourceslice", "e2e-claims").expect()
    kubectl.delete("deviceclass", _WRITTEN).expect()


@pytest.fixture
def space(space: Space) -> Iterator[Space]:
    """A namespace whose jobs and pods go first: their devices are free before the namespace is gone."""
    yield space
    for kind in (TRAINJOBS, JOBSETS, "pods"):
        space.kubectl.run("delete", kind, "--all", "--namespace", space.name, "--wait=false", "--grace-period=1")


@pytest.fixture
def devices(all_devices: Devices, kubectl: Kubectl) -> Devices:
    """The devices, when those of earlier tests are free again."""
    until("the devices of earlier tests to be free", lambda: not _in_use(kubectl), 60)
    return all_devices


@pytest.fixture
def sessions(devices: Devices, kubectl: Kubectl) -> Iterator[str]:
    """A DeviceClass of one device that takes two sessions at a time, by consumable capacity."""
    # This release of the driver publishes none, but gives a container any device whose name it knows.
    name = SESSIONS_CLASS
    known = f"device.driver == '{devices.driver}' && device.allowMultipleAllocations == true"
    device = {"name": f"gpu-{_COUNT - 1}", "allowMultipleAllocations": True, "capacity": {"sessions": _capacity()}}
    offered = claims.slice_of(name, devices.driver, devices.node, [device])
    kubectl.apply(offered, claims.device_class(name, known)).expect()
    yield name
    kubectl.delete("resourceslice", name).expect()
    kubectl.delete("deviceclass", name).expect()


@pytest.fixture
def mapped(devices: Devices, kubectl: Kubectl) -> Iterator[str]:
    """A DeviceClass of all devices that stands for an extended resource; return the resource's name."""
    known = claims.device_class(MAPPED_CLASS, f"device.driver == '{devices.driver}'", MAPPED)
    kubectl.apply(known).expect()
    yield MAPPED
    kubectl.delete("deviceclass", MAPPED_CLASS).expect()


def pending(space: Space, name: str, reason: str) -> None:
    """Wait until a pod is refused a node for this reason; at first it may be another, such as a claim to be made."""

    def look() -> bool:
        conditions = (space.get("pods", name) or {})["status"]["conditions"]
        told = str(next(each["message"] for each in conditions if each.get("reason") == "Unschedulable"))
        assert reason in told, told
        return True

    until(f"pod {name} to be pending", look)


def described(space: Space, name: str, reason: str) -> None:
    """Wait until `kubectl describe` shows this reason, of an event that the scheduler writes beside the condition."""
    command = ("describe", "pod", name, "-n", space.name)
    until(f"the description of pod {name}", lambda: reason in space.kubectl.run(*command).expect().out)


def _published(kubectl: Kubectl) -> Devices | None:
    nodes = [node["metadata"] for node in kubectl.all("nodes")]
    real = {each["name"] for each in nodes if _FAKE not in (each.get("annotations") or {})}
    for each in kubectl.all("resourceslices"):
        if each["spec"]["driver"] == _REAL and each["spec"].get("nodeName") in real:
            count, node = len(each["spec"]["devices"]), each["spec"]["nodeName"]
            return Devices(_REAL, _REAL, count, node, trainings.IMAGE)
    return None


def _device(number: int) -> dict[str, Any]:
    attributes = {"index": {"int": number}, "uuid": {"string": f"gpu-{number:04}"}, "model": {"string": "H100"}}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def _capacity() -> dict[str, Any]:
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    return {"value": str(SESSIONS), "requestPolicy": policy}


def _in_use(kubectl: Kubectl) -> list[str]:
    return [each["metadata"]["name"] for each in claims.everywhere(kubectl) if claims.allocated(each)]
