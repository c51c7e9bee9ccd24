"""Which device an engine has: what is read of control groups, claims and slices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.sessions.nodes.claims import LABEL, Place, claim_of, pod_of, uuid_of
from muster.strategies.documents import names

UID = "0b5c7f0a-5f3e-4a51-9c3f-0d6c1f6b2a11"
UNDERSCORED = UID.replace("-", "_")


@pytest.mark.parametrize(
    "groups",
    [
        f"4:memory:/kubepods/burstable/pod{UID}/5d1e\n0::/\n",
        f"4:memory:/muster-1234/kubepods/besteffort/pod{UID}\n",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-5d1e.scope\n",
        f"0::/../../kubepods-pod{UNDERSCORED}.slice/crio-5d1e.scope\n",
        f"4:memory:/muster-device-a-gpu-0/trainer.7.1234\n2:cpu:/kubepods/burstable/pod{UID}/5d1e\n",
    ],
)
def test_the_uid_of_a_pod_is_read_of_the_groups_that_each_driver_makes(groups):
    assert pod_of(groups) == UID


@pytest.mark.parametrize(
    "groups",
    [
        "",
        "0::/\n",
        "0::/user.slice/user-0.slice/session-1.scope\n",
        "0::/system.slice/podman.service\n",
        f"0::/{UID}\n",
    ],
)
def test_a_process_that_no_kubelet_started_is_in_no_pod(groups):
    assert pod_of(groups) is None


@given(st.text(max_size=200))
def test_whatever_the_groups_are_called_nothing_else_than_a_uid_is_read(groups):
    assert pod_of(groups) in {None, *(part.replace("_", "-") for part in (groups[at : at + 36] for at in range(200)))}


def document(**status):
    metadata = {"namespace": "team-a", "name": "muster-seat-0", "uid": "c-1"}
    return {"metadata": metadata, "status": status} if status else {"metadata": metadata}


def test_a_claim_has_its_devices_and_the_pods_that_may_use_it():
    results = [{"request": "devices", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-3"}]
    users = [
        {"resource": "pods", "name": "trainer", "uid": UID},
        {"apiGroup": "example.com", "resource": "others", "name": "x", "uid": "u"},
    ]
    claim = claim_of(document(allocation={"devices": {"results": results}}, reservedFor=users))
    assert claim.devices == (Place("gpu.example.com", "n1", "gpu-3"),)
    assert claim.pods == {UID: "trainer"}
    assert claim_of(document()).devices == ()


def test_a_uuid_is_that_of_the_device_in_the_pool_of_the_driver():
    def published(driver, pool, **uuids):
        devices = [{"name": name, "attributes": {"uuid": {"string": uuid}}} for name, uuid in uuids.items()]
        return {"spec": {"driver": driver, "pool": {"name": pool}, "devices": [{"name": "none"}, *devices]}}

    slices = [published("a", "n1", g0="A1"), published("b", "n1", g0="B1"), published("b", "n2", g0="B2"), {
        "spec": {"driver": "b", "pool": {"name": "n1"}}
    }]  # fmt: skip
    assert uuid_of(Place("b", "n1", "g0"), slices) == "B1"
    assert uuid_of(Place("b", "n1", "none"), slices) is None
    assert uuid_of(Place("c", "n1", "g0"), slices) is None


def test_the_label_of_claims_is_the_one_that_the_controllers_write():
    assert names.PROFILE_LABEL == LABEL
