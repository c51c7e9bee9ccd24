"""Profiles of Muster: a job names one, and its pods get devices without a claim of the user's."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.suites.claims import jobs
from e2e.suites.claims.conftest import MAPPED, MAPPED_CLASS, SESSIONS, SESSIONS_CLASS, described, pending
from e2e.suites.pods import trainings
from e2e.suites.support import devices as claims
from e2e.suites.support.devices import Devices, end, told
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("installation")

SEATS = 2


@pytest.fixture(scope="module", autouse=True)
def profiles(installation: Installation, all_devices: Devices) -> Iterator[None]:
    """Muster, with profiles and the controllers that make their objects."""
    name = all_devices.device_class
    shared: dict[str, Any] = {"deviceClass": name, "sharing": "shared", "claims": 1}
    offered = {
        "gpu": {"deviceClass": name},
        "all": {"deviceClass": name, "count": all_devices.count},
        "seat": {**shared, "maxSessions": SEATS},
        "only": {**shared, "maxSessions": 1, "whenFull": "deny"},
        "instead": {"deviceClass": MAPPED_CLASS, "replaces": MAPPED},
        "session": {"deviceClass": SESSIONS_CLASS, "capacity": {"sessions": "1"}},
    }
    with installation.configure({"profiles": offered, "controllers": jobs.CONTROLLERS}):
        yield


@pytest.mark.thorough_on_nodes
def test_each_node_of_a_training_gets_a_device_of_its_own(devices: Devices, space: Space) -> None:
    jobs.started(space, jobs.runtime(devices), jobs.trainer("two", "gpu", nodes=2))
    assert len(set(jobs.held(space, "two", 2))) == 2
    (template,) = space.all("resourceclaimtemplates")
    assert template["metadata"]["labels"]["muster.dev/profile"] == "gpu"


def test_the_processes_of_a_training_find_their_devices_in_their_env(devices: Devices, space: Space) -> None:
    if not devices.real:
        pytest.skip("nobody runs containers here; the node tier's driver gives its devices to some")
    runtime = trainings.runtime("torch", command=["torchrun", "train.py"])
    pods = trainings.run(space, runtime, jobs.trainer("two", "gpu", nodes=2))
    given = [{value for key, value in pod.env.items() if key.removeprefix("GPU_DEVICE_").isdigit()} for pod in pods]
    assert [len(each) for each in given] == [1, 1]
    assert given[0] != given[1]


def test_sessions_share_a_device_up_to_the_limit_and_the_next_gets_the_first_free_seat(
    devices: Devices, space: Space
) -> None:
    space.apply(jobs.sampler(devices, "one", "seat")).expect()
    first = jobs.held(space, "one")
    space.apply(jobs.sampler(devices, "two", "seat")).expect()
    assert jobs.held(space, "two") == first
    if devices.real:
        assert told(space, jobs.pods(space, "two")[0]) == told(space, jobs.pods(space, "one")[0])
    space.apply(jobs.sampler(devices, "late", "seat")).expect()
    reason = jobs.gated(space, "late")
    assert "one" in reason
    assert "two" in reason
    end(space, jobs.pods(space, "one")[0])
    assert jobs.held(space, "late") == first


@pytest.mark.thorough
def test_a_session_that_is_over_leaves_its_claim_in_peace(devices: Devices, space: Space) -> None:
    """While an ended pod is there, Kubernetes writes a claim that others use 170 times a second (k/k#141274)."""
    space.apply(*(jobs.sampler(devices, name, "seat") for name in ("ends", "stays"))).expect()
    assert jobs.held(space, "ends") == jobs.held(space, "stays")
    end(space, jobs.pods(space, "ends")[0])
    until("the claim not to change any more", lambda: _version(space) == _after(space, 2), 30)
    assert jobs.held(space, "stays")


@pytest.mark.thorough_on_nodes
def test_a_job_that_finds_no_seat_is_refused_where_the_profile_says_so(devices: Devices, space: Space) -> None:
    space.apply(jobs.sampler(devices, "sits", "only")).expect()
    assert len(jobs.held(space, "sits")) == 1

    def refused() -> str:
        outcome = space.create(jobs.sampler(devices, "late", "only"), dry_run=True)
        assert not outcome.ok
        return outcome.err

    assert "sits" in until("a further job to be refused", refused)
    space.delete("jobset", "sits").expect()
    until("the seat to be free", lambda: space.create(jobs.sampler(devices, "late", "only"), dry_run=True).ok, 60)


@pytest.mark.thorough
def test_sessions_by_capacity_are_counted_by_the_scheduler(devices: Devices, sessions: str, space: Space) -> None:
    assert sessions == SESSIONS_CLASS
    names = [f"session-{number}" for number in range(SESSIONS)]
    got = []
    for name in names:  # one after the other: of two at once the scheduler may leave one behind
        space.apply(jobs.sampler(devices, name, "session")).expect()
        got.append(jobs.held(space, name))
    assert all(each == got[0] for each in got)
    space.apply(jobs.sampler(devices, "late", "session")).expect()
    (late,) = jobs.pods(space, "late")
    pending(space, late, "cannot allocate all claims")
    end(space, jobs.pods(space, names[0])[0])
    assert jobs.held(space, "late") == got[0]


@pytest.mark.thorough
def test_both_ways_of_sharing_let_equally_many_in(
    devices: Devices, sessions: str, space: Space, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sessions == SESSIONS_CLASS
    lines = []
    for profile, way in (("seat", "seats of Muster"), ("session", "capacity, by the scheduler")):
        turns = jobs.in_turn(space, devices, profile, 6, SEATS)
        assert turns.most == SEATS == SESSIONS
        lines.append(
            f"  {way}: {SEATS} at a time, the first after {turns.first:.1f} s, the next after {turns.next:.1f} s (mean)"
        )
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")


@pytest.mark.thorough_on_nodes
def test_a_job_whose_claim_cannot_be_met_says_why_and_runs_when_devices_are_free(
    devices: Devices, space: Space
) -> None:
    jobs.started(space, jobs.runtime(devices), jobs.trainer("first", "gpu"))
    assert len(jobs.held(space, "first")) == 1
    jobs.started(space, jobs.trainer("large", "all"))
    (waits,) = jobs.pods(space, "large")
    pending(space, waits, "cannot allocate all claims")
    described(space, waits, "cannot allocate all claims")
    space.delete("trainjob", "first").expect()
    assert len(jobs.held(space, "large")) == devices.count


@pytest.mark.thorough_on_nodes
def test_a_suspended_training_gives_its_devices_back_and_takes_some_again(devices: Devices, space: Space) -> None:
    jobs.started(space, jobs.runtime(devices), jobs.trainer("pauses", "gpu", nodes=2))
    assert len(set(jobs.held(space, "pauses", 2))) == 2
    space.patch("trainjob", "pauses", {"spec": {"suspend": True}}).expect()
    until("the claims of the pods to be gone", lambda: not space.all("resourceclaims"), 60)
    space.patch("trainjob", "pauses", {"spec": {"suspend": False}}).expect()
    assert len(set(jobs.held(space, "pauses", 2))) == 2


@pytest.mark.thorough_on_nodes
def test_a_claim_in_place_of_a_limit_takes_one_device_and_not_two(devices: Devices, mapped: str, space: Space) -> None:
    runtime = jobs.runtime(devices, resources={"limits": {mapped: "1"}})
    jobs.started(space, runtime, jobs.trainer("swaps", "instead"))
    (device,) = jobs.held(space, "swaps")
    assert claims.taken(space) == [device]
    for suspended in (True, False):
        # Trainer applies its limit again with each of these.
        space.patch("trainjob", "swaps", {"spec": {"suspend": suspended}}).expect()
        until("the devices to follow", lambda suspended=suspended: bool(claims.taken(space)) is not suspended, 60)
    (device,) = jobs.held(space, "swaps")
    assert claims.taken(space) == [device]


@pytest.mark.thorough_on_nodes
def test_deleting_the_jobs_leaves_no_claim_template_or_reservation(devices: Devices, space: Space) -> None:
    jobs.started(space, jobs.runtime(devices), jobs.trainer("trains", "gpu"))
    space.apply(jobs.sampler(devices, "samples", "seat")).expect()
    assert jobs.held(space, "trains") != jobs.held(space, "samples")
    space.delete("trainjob", "trains").expect()
    space.delete("jobset", "samples").expect()
    until("claims and templates to be gone", lambda: _left(space) == [], 90)
    space.remove()
    until("the namespace to be gone", lambda: space.kubectl.get("namespaces", space.name) is None, 60)


@pytest.mark.thorough
def test_a_namespace_goes_with_everything_in_it_while_its_jobs_run(devices: Devices, space: Space) -> None:
    space.apply(jobs.sampler(devices, "samples", "seat")).expect()
    assert jobs.held(space, "samples")
    space.remove()
    until("the namespace to be gone", lambda: space.kubectl.get("namespaces", space.name) is None, 60)
    used = {each["metadata"]["namespace"] for each in claims.everywhere(space.kubectl)}
    assert space.name not in used


def _left(space: Space) -> list[str]:
    found = [*space.all("resourceclaims"), *space.all("resourceclaimtemplates")]
    return [f"{each['kind']}/{each['metadata']['name']}" for each in found]


def _version(space: Space) -> str:
    (claim,) = space.all("resourceclaims")
    version: str = claim["metadata"]["resourceVersion"]
    return version


def _after(space: Space, seconds: float) -> str:
    time.sleep(seconds)
    return _version(space)
