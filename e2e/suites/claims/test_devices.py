"""What Kubernetes and a driver do with claims without Muster, which Muster's additions rely on."""

from __future__ import annotations

import pytest

from e2e.suites.claims.conftest import MAPPED_CLASS, SESSIONS, described, pending
from e2e.suites.support import devices as claims
from e2e.suites.support.devices import Devices, end, held, told
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until


def test_the_driver_publishes_each_device_once(devices: Devices, space: Space) -> None:
    slices = [each["spec"] for each in space.kubectl.all("resourceslices") if each["spec"]["driver"] == devices.driver]
    names = [
        device["name"] for each in slices for device in each["devices"] if "allowMultipleAllocations" not in device
    ]
    assert sorted(names) == [f"gpu-{number}" for number in range(devices.count)]


def test_each_pod_of_a_template_gets_a_device_of_its_own(devices: Devices, space: Space) -> None:
    space.apply(claims.template("one", claims.request(devices.device_class))).expect()
    names = [f"pod-{number}" for number in range(3)]
    space.apply(*(devices.pod(name, template="one") for name in names)).expect()
    got = [held(space, name) for name in names]
    assert all(len(each) == 1 for each in got)
    assert len({device for each in got for device in each}) == len(names)


def test_a_container_finds_the_devices_of_its_claim_in_its_env(devices: Devices, space: Space) -> None:
    _needs_containers(devices)
    space.apply(claims.template("three", claims.request(devices.device_class, 3))).expect()
    space.apply(devices.pod("trainer", template="three")).expect()
    got = held(space, "trainer")
    assert len(got) == 3
    assert told(space, "trainer") == {each.rpartition("/")[2] for each in got}


def test_pods_that_name_one_claim_use_the_same_device(devices: Devices, space: Space) -> None:
    space.apply(claims.claim("shared", claims.request(devices.device_class))).expect()
    space.apply(*(devices.pod(name, claim="shared") for name in ("first", "second"))).expect()
    first, second = held(space, "first"), held(space, "second")
    assert first == second
    assert len(first) == 1
    if devices.real:
        assert told(space, "first") == told(space, "second") == {first[0].rpartition("/")[2]}


@pytest.mark.thorough
def test_a_shared_device_stays_while_one_pod_is_alive_and_is_free_after_the_last(
    devices: Devices, space: Space
) -> None:
    space.apply(claims.claim("shared", claims.request(devices.device_class))).expect()
    space.apply(*(devices.pod(name, claim="shared") for name in ("first", "second"))).expect()
    before = [held(space, name) for name in ("first", "second")]
    end(space, "first")
    space.apply(devices.pod("third", claim="shared")).expect()
    assert held(space, "third") == before[1]
    end(space, "second")
    end(space, "third")
    until("the claim to be free", lambda: not _status(space, "shared"))


@pytest.mark.thorough
def test_a_pod_that_finds_no_device_says_why_and_runs_when_one_is_free(devices: Devices, space: Space) -> None:
    space.apply(claims.template("most", claims.request(devices.device_class, devices.count - 1))).expect()
    space.apply(claims.template("two", claims.request(devices.device_class, 2))).expect()
    space.apply(devices.pod("large", template="most")).expect()
    assert len(held(space, "large")) == devices.count - 1
    space.apply(devices.pod("waits", template="two")).expect()
    pending(space, "waits", "cannot allocate all claims")
    described(space, "waits", "cannot allocate all claims")
    end(space, "large")
    assert len(held(space, "waits")) == 2


@pytest.mark.thorough
def test_a_device_takes_as_many_sessions_as_its_capacity_allows(devices: Devices, sessions: str, space: Space) -> None:
    spec = claims.request(sessions, capacity={"requests": {"sessions": "1"}})
    space.apply(claims.template("session", spec)).expect()
    seated = [f"session-{number}" for number in range(SESSIONS)]
    got = []
    for name in seated:  # of two at once the scheduler may refuse one, and look at it again after minutes only
        space.apply(devices.pod(name, template="session")).expect()
        got.append(held(space, name))
    assert all(each == got[0] for each in got)
    if devices.real:
        assert told(space, seated[0]) == told(space, seated[1])
    space.apply(devices.pod("late", template="session")).expect()
    pending(space, "late", "cannot allocate all claims")
    end(space, seated[0])
    assert held(space, "late") == got[0]


@pytest.mark.thorough
@pytest.mark.parametrize(("claimed", "taken"), [(False, 1), (True, 2)], ids=["a limit alone", "a claim beside it"])
def test_a_limit_that_a_class_stands_for_takes_a_device_of_its_own(
    claimed: bool, taken: int, devices: Devices, mapped: str, space: Space
) -> None:
    space.apply(claims.template("one", claims.request(MAPPED_CLASS))).expect()
    pod = devices.pod("asks", template="one")
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {mapped: "1"}
    if not claimed:
        del resources["claims"], pod["spec"]["resourceClaims"]
    space.apply(pod).expect()
    held(space, "asks")
    assert len(claims.taken(space)) == taken
    if devices.real:
        assert len(told(space, "asks")) == taken


@pytest.mark.thorough
def test_deleting_everything_leaves_no_claim_and_no_reservation(devices: Devices, space: Space) -> None:
    space.apply(claims.template("one", claims.request(devices.device_class))).expect()
    space.apply(claims.claim("shared", claims.request(devices.device_class))).expect()
    space.apply(devices.pod("own", template="one"), devices.pod("sits", claim="shared")).expect()
    assert held(space, "own") != held(space, "sits")
    for name in ("own", "sits"):
        space.delete("pod", name).expect()
    until("the claim of the pod to be gone", lambda: len(space.all("resourceclaims")) == 1)
    until("the shared claim to be free", lambda: not _status(space, "shared"))
    until("nothing to hold it back", lambda: "finalizers" not in space.all("resourceclaims")[0]["metadata"])
    space.remove()
    until("the namespace to be gone", lambda: space.kubectl.get("namespaces", space.name) is None, 60)


def _status(space: Space, claim: str) -> dict[str, object]:
    found = space.get("resourceclaims", claim)
    assert found is not None
    status: dict[str, object] = found.get("status") or {}
    return status


def _needs_containers(devices: Devices) -> None:
    if not devices.real:
        pytest.skip("nobody runs containers here; the node tier's driver gives its devices to some")
