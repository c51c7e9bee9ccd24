"""The life of claims: changed profiles, claims that Muster did not make, and what `muster claims` shows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.claims import jobs
from e2e.suites.support import devices as claims
from e2e.suites.support.devices import Devices, end
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough_on_nodes]

_BROUGHT = 120  # seconds that a kubelet may take to update a file in Muster's pod


def _profiles(device_class: str, count: int = 1) -> dict[str, Any]:
    shared = {"sharing": "shared", "claims": 2, "maxSessions": 2}
    return {"seat": {"deviceClass": device_class, "count": count, **shared}}


@pytest.fixture(scope="module", autouse=True)
def configured(installation: Installation, all_devices: Devices) -> Iterator[None]:
    """Muster, with a shared profile and its controllers."""
    changes = {"profiles": _profiles(all_devices.device_class), "controllers": jobs.CONTROLLERS}
    with installation.configure(changes):
        yield


def test_a_changed_profile_replaces_free_claims_at_once_and_one_in_use_when_it_is_free(
    devices: Devices, space: Space, installation: Installation
) -> None:
    space.apply(jobs.sampler(devices, "one", "seat")).expect()
    device = jobs.held(space, "one")
    (used,) = (name for name, each in _claims(space).items() if claims.allocated(each))
    before = _claims(space)[used]["metadata"]["uid"]
    with installation.reloaded({"profiles": _profiles(devices.device_class, count=2)}):
        (free,) = until("the other claim", lambda: _claims(space).keys() - {used})
        until("the free claim to be of two devices", lambda: _count(space, free) == 2, _BROUGHT)
        assert _claims(space)[used]["metadata"]["uid"] == before
        assert jobs.held(space, "one") == device
        end(space, jobs.pods(space, "one")[0])
        space.apply(jobs.sampler(devices, "two", "seat")).expect()
        until("the other claim to be of two devices", lambda: _count(space, used) == 2, _BROUGHT)
        assert len(jobs.held(space, "two")) == 2
    until("the former profile to be in force", lambda: 1 in (_count(space, free), _count(space, used)), _BROUGHT)


def test_a_claim_of_somebody_else_is_left_alone_and_named(devices: Devices, space: Space) -> None:
    theirs = claims.claim("muster-seat-0", claims.request(devices.device_class))
    space.apply(theirs).expect()
    before = _claims(space)["muster-seat-0"]["metadata"]["resourceVersion"]
    space.apply(jobs.sampler(devices, "one", "seat")).expect()

    def named() -> list[str]:
        return [each["message"] for each in space.events() if each["reason"] == "NameTaken"]

    (message,) = until("an event about the claim", named)
    assert "was not made by Muster" in message
    assert _claims(space)["muster-seat-0"]["metadata"]["resourceVersion"] == before


def test_muster_claims_says_who_has_a_seat_and_on_which_device(devices: Devices, space: Space) -> None:
    space.apply(jobs.sampler(devices, "one", "seat")).expect()
    device = jobs.held(space, "one")
    shown = _shown(space, {"profiles": _profiles(devices.device_class)})
    (row,) = (each for each in shown["claims"] if each["seats"])
    assert row["devices"] == device
    assert (row["limit"], row["seats"][0]["job"], row["state"]) == (2, "one", "in use")


def _claims(space: Space) -> Mapping[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in space.all("resourceclaims")}


def _count(space: Space, name: str) -> int:
    count: int = _claims(space)[name]["spec"]["devices"]["requests"][0]["exactly"]["count"]
    return count


def _shown(space: Space, config: Mapping[str, Any]) -> dict[str, Any]:
    """What `muster claims` prints of a namespace."""
    command = [
        sys.executable,
        "-m",
        "muster",
        "claims",
        "-o",
        "json",
        "-n",
        space.name,
        "--config",
        "/dev/stdin",
    ]
    command += ["--kubeconfig", space.kubectl.kubeconfig]
    text = yaml.safe_dump(dict(config))
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=REPOSITORY, timeout=60, check=True)
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown
