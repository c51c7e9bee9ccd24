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
JOBSET["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"] = [{"env": "x" * 999}]


def made(profile: Profile, status=None):
    document = desired.made("n", "name", profile)
    document["metadata"] |= {"uid": "u", "resourceVersion": "1", "deletionTimestamp": "t", "managedFields": ["x" * 999]}
    return document | {"status": status or {}}


@pytest.mark.parametrize(
    ("kind", "view", "document"),
    [
        (kinds.POD, views.Pod.from_document, POD),
        (kinds.POD, views.Pod.from_document, pod("q", gated=False, phase="Failed", uid="u")),
        (kinds.JOBSET, views.JobSet.from_document, JOBSET),
        (kinds.CLAIM, views.Managed.from_document, made(SHARED, {"allocation": {"devices": {}}})),
        (kinds.CLAIM, views.Managed.from_document, made(SHARED, {"reservedFor": [{"name": "p"}]})),
        (kinds.CLAIM, views.Managed.from_document, made(SHARED)),
        (kinds.TEMPLATE, views.Managed.from_document, made(DEDICATED)),
        (kinds.NAMESPACE, views.Namespace.from_document, namespace("n", {"muster.dev/profiles": "a"}, deleting=True)),
    ],
)
def test_a_view_of_what_is_kept_is_the_view_of_the_whole_object(kind, view, document):
    kept = kind.trim(document)
    assert view(kept) == view(document)
    assert "x" * 999 not in str(kept)


def test_each_kind_is_narrowed_by_labels_and_has_a_path():
    assert [each.query for each in (kinds.POD, kinds.JOBSET)] == [{"labelSelector": "muster.dev/profile"}] * 2
    selector = "muster.dev/profile,app.kubernetes.io/managed-by=muster"
    assert [each.query for each in kinds.OBJECTS.values()] == [{"labelSelector": selector}] * 2
    assert kinds.LEASE.path("n", "x") == "/apis/coordination.k8s.io/v1/namespaces/n/leases/x"
    assert kinds.EVENT.path("n") == "/api/v1/namespaces/n/events"
