"""A thousand pods with claims on two hundred nodes of eight devices: each gets what it asked for, nobody shares."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.suites.scale import allocations
from e2e.suites.scale.allocations import Allocations
from e2e.suites.support import devices, spaces
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.thorough

DEVICES = 8
JOBS = {1: 700, 2: 300}
"""Devices of each pod to number of pods: 1,000 pods with 1,300 of 1,600 devices."""
PODS = sum(JOBS.values())


@pytest.fixture(scope="module")
def done(nodes: int, kubectl: Kubectl) -> Iterator[Allocations]:
    """The run, made once; the node tier's scheduler and fake nodes are those of the control plane tier."""
    if os.environ.get("MUSTER_E2E_TIER") == "node":
        pytest.skip("this does not depend on real nodes; it runs in the control plane tier")
    space = Space(spaces.named("scale-claims"), kubectl).make()
    try:
        name = allocations.publish(kubectl, [f"scale-{number}" for number in range(nodes)], DEVICES)
        yield allocations.run(space, name, JOBS)
    finally:
        space.remove()
        allocations.withdraw(kubectl)


def test_every_pod_gets_exactly_the_devices_that_it_asked_for(done: Allocations, capsys: pytest.CaptureFixture) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{_figures(done)}\n")
    assert len(done.pods) == len(done.claims) == PODS
    for pod in done.pods:
        (name,) = devices.claims_of(pod)
        assert len(devices.allocated(done.claims[name])) == done.wanted_by(pod), pod["metadata"]["name"]


def test_every_device_is_on_the_node_of_its_pod(done: Allocations) -> None:
    for pod in done.pods:
        (name,) = devices.claims_of(pod)
        pools = {device.partition("/")[0] for device in devices.allocated(done.claims[name])}
        assert pools == {pod["spec"]["nodeName"]}, pod["metadata"]["name"]


def test_no_device_is_given_twice(done: Allocations) -> None:
    given = Counter(device for each in done.claims.values() for device in devices.allocated(each))
    assert [device for device, times in given.items() if times > 1] == []
    assert given.total() == sum(count * pods for count, pods in JOBS.items())


def test_every_claim_is_reserved_for_its_pod_alone(done: Allocations) -> None:
    owners = {name: pod["metadata"]["uid"] for pod in done.pods for name in devices.claims_of(pod)}
    reserved = {name: [each["uid"] for each in claim["status"]["reservedFor"]] for name, claim in done.claims.items()}
    assert reserved == {name: [uid] for name, uid in owners.items()}


def test_deleting_the_jobs_gives_every_device_back(done: Allocations) -> None:
    space = done.space
    space.kubectl.run("delete", "jobs", "--all", "--namespace", space.name, "--wait=false").expect()
    until("all claims to be gone", lambda: not space.all("resourceclaims"), 300)


def _figures(done: Allocations) -> str:
    """Say how long it took."""
    times, waited = done.scheduled(), done.waits()
    span = max((times[-1] - times[0]).total_seconds(), 1)
    given = sum(count * pods for count, pods in JOBS.items())
    return (
        f"  {PODS} pods with {given} devices: all run after {done.seconds:.0f} s\n"
        f"  scheduler: {len(times) / span:.1f} pods a second over {span:.0f} s; a pod waits"
        f" {waited[len(waited) // 2]:.0f} s (median), {waited[-1]:.0f} s (longest)"
    )
