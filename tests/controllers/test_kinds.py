"""What is kept of an object is what is read of it."""

from __future__ import annotations

import pytest

from muster.strategies.platform.profiles import Profile
from muster.webhook.cluster import kinds
from muster.webhook.controllers import desired, views
from tests.controllers.documents import DEDICATED, SHARED, jobset, namespace, pod

POD = pod("p", "b", "a", job="j", uid="u", creationTimestamp="t", finalizers=["x"], annotations={"big": "x" * 999})
POD["metadata"]["ownerReferences"] = [{"kind": "Job", "controller": True}]
POD["spec"]["containers"] = [{"name": "node", "env": [{"name": "A", "value": "b" * 999}]}]
JOBSET = jobset("j", ("muster-sampler-0", 3), ("muster-trainer", 2), status={"restarts": 1, "terminalState": "Failed"})
JOBSET["metadata"]["uid"] = "u"
JOBSET["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"] = [{"image": "x" * 999}]


def made(profile: Profile, status=None):
    document = desired.made("n", "name", profile)
    document["metadata"] |= {"uid": "u", "resourceVersion": "1", "deletionTimestamp": "t", "managedFields": ["x" * 999]}
    return document | {"status": status or {}}


@pytest.mark.parametrize(
    ("view", "document"),
    [
        (views.Pod, POD),
        (views.JobSet, JOBSET),
        (views.Managed, made(SHARED, {"allocation": {"devices": {}}})),
        (views.Managed, made(DEDICATED)),
        (views.Namespace, namespace("n", {"muster.dev/profiles": "a", "big": "x" * 999}, deleting=True)),
    ],
)
def test_of_an_object_only_what_is_used_is_kept(view, document):
    assert "x" * 999 not in str(view.from_document(document))


@pytest.mark.parametrize(
    ("status", "allocated"),
    [({"allocation": {"devices": {}}}, True), ({"reservedFor": [{"name": "p"}]}, True), ({}, False)],
)
def test_a_claim_with_a_device_or_a_pod_is_allocated(status, allocated):
    assert views.Managed.from_document(made(SHARED, status)).allocated is allocated


def test_each_kind_is_narrowed_by_labels_and_has_a_path():
    assert [each.query for each in (kinds.POD, kinds.JOBSET)] == [{"labelSelector": "muster.dev/profile"}] * 2
    selector = "muster.dev/profile,app.kubernetes.io/managed-by=muster"
    assert [each.query for each in kinds.OBJECTS.values()] == [{"labelSelector": selector}] * 2
    assert kinds.LEASE.path("n", "x") == "/apis/coordination.k8s.io/v1/namespaces/n/leases/x"
    assert kinds.EVENT.path("n") == "/api/v1/namespaces/n/events"
