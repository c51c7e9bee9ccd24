"""Fifty pods, twelve seats, eight controllers, and one of these killed in the middle: never thirteen, none leaked."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.claims import jobs, races
from e2e.suites.claims.races import Controllers
from e2e.suites.support.devices import Devices, let_end
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough]

PODS, CLAIMS, SESSIONS, CONTROLLERS = 50, 4, 3, 8
SEATS = CLAIMS * SESSIONS


@pytest.fixture
def started(devices: Devices, space: Space, kubectl: Kubectl, tmp_path: Path) -> Iterator[Controllers]:
    """Eight controllers' files, and claims asked for ahead; nothing runs yet."""
    if devices.real:
        pytest.skip("fifty pods would really run here; the control plane tier shows the same by KWOK's nodes")
    shared = {"sharing": "shared", "claims": CLAIMS, "maxSessions": SESSIONS}
    lease = {"namespace": "muster-system", "duration": 3, "deadline": 2, "retry": 0.5}
    config = {
        "profiles": {"race": {"deviceClass": devices.device_class, **shared}},
        "controllers": {"lease": lease, "resync": 5},
    }
    kubectl.run("annotate", "namespace", space.name, "muster.dev/profiles=race").expect()
    with Controllers(kubectl, tmp_path, config) as controllers:
        yield controllers


@pytest.mark.parametrize("elected", [False, True], ids=["all of them write", "the leader writes"])
def test_fifty_pods_and_eight_controllers_never_take_a_thirteenth_seat(
    elected: bool, started: Controllers, devices: Devices, space: Space, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    began = time.monotonic()
    started.start(CONTROLLERS, *([] if elected else ["--without-lease"]))
    with races.witness(space, tmp_path) as states:
        until("the claims to be made", lambda: len(_seats(space)) == CLAIMS, 60)
        for first in range(0, PODS, 10):
            space.create(*(_pod(devices, number) for number in range(first, first + 10))).expect()
        _until_in(space, SEATS)
        started.kill(started.leader() if elected else 3)
        ever = _everybody_in_turn(space)
        until("all seats to be free", lambda: not any(_seats(space).values()), 30)
    assert len(ever) == PODS
    assert max(state.total() for state in states) == SEATS
    assert all(max(state.values(), default=0) <= SESSIONS for state in states)
    with capsys.disabled():
        seconds = time.monotonic() - began
        told = f"{PODS} pods had {SEATS} seats in turn in {seconds:.0f} s; {len(states)} states, none with more"
        sys.stdout.write(f"\n{told}\n")


def _everybody_in_turn(space: Space) -> set[str]:
    """End those who are in, half of them by deletion, until nobody waits; return the names of all that ever were in."""
    ever: set[str] = set()

    def over() -> bool:
        pods = {each["metadata"]["name"]: each for each in space.pods()}
        inside = sorted(name for name, pod in pods.items() if races.is_in(pod))
        ever.update(inside)
        deleted = inside[::2]
        # KWOK may still be starting the others, and would write that they run after it has written that they ended.
        ended = [name for name in inside[1::2] if pods[name]["status"].get("phase") == "Running"]
        if deleted:
            space.kubectl.run("delete", "pods", *deleted, "-n", space.name, "--wait=false", "--grace-period=1").expect()
        if ended:
            let_end(space, *ended)
        return len(ever) == PODS and not inside

    until("everybody to have had a seat", over, 90)
    return ever


def _until_in(space: Space, count: int) -> None:
    until(f"{count} pods to be in", lambda: sum(races.is_in(pod) for pod in space.pods()) == count, 60)


def _seats(space: Space) -> dict[str, dict[str, Any]]:
    found = space.all("resourceclaims")
    return {each["metadata"]["name"]: json.loads(each["metadata"]["annotations"][jobs.SEATS]) for each in found}


def _pod(devices: Devices, number: int) -> dict[str, Any]:
    """A pod as admission leaves it."""
    pod = devices.pod(f"race-{number}", claim=f"muster-race-{number % CLAIMS}", schedulingGates=[{"name": jobs.GATE}])
    return {**pod, "metadata": {**pod["metadata"], "labels": {"muster.dev/profile": "race"}}}
