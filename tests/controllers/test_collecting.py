"""What the guard reported is written on the JobSet, once, by the replica that leads."""

from __future__ import annotations

import json

import pytest

from muster.webhook.controllers import collecting, trainings
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace
from tests.support import waits

REPORT = {"schema": "muster.dev/training/v1", "worldSize": 2, "expected": "2", "rank": 0, "steps": 8, "wallSeconds": 1}


def said(**changes):
    return json.dumps(REPORT | changes)


def pod(name, message=None, job="job", uid="uid-job", attempt="0", **metadata):
    """A pod of a JobSet, which has ended with a message unless that is None."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": job,
        "jobset.sigs.k8s.io/jobset-uid": uid,
        "jobset.sigs.k8s.io/restart-attempt": attempt,
    }
    owners = [{"kind": "Job", "name": f"{job}-node-0", "controller": True}]
    state = {"running": {}} if message is None else {"terminated": {"exitCode": 0, "message": message}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "labels": labels, "ownerReferences": owners, **metadata},
        "spec": {"containers": [{"name": "node", "env": [{"name": "SECRET", "value": "hunter2"}]}]},
        "status": {"containerStatuses": [{"name": "node", "state": state}]},
    }


class Scene:
    """An API server with one JobSet, and collectors that a test starts."""

    def __init__(self):
        self.server = ApiServer()
        self.outcomes = []
        self.begun = []
        self.server.put(namespace())
        self.server.put(namespace("muster-system"))
        self.make()

    def make(self, uid="uid-job", **annotations):
        metadata = {"name": "job", "namespace": "team-a", "uid": uid, "annotations": {"theirs": "stays", **annotations}}
        self.server.put({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {}})

    def start(self, **options):
        made = collecting.Collecting(
            self.server.connection(), collecting.CollectingOptions(**options), self.outcomes.append
        )
        made.start()
        self.begun.append(made)
        return made

    async def stop(self):
        for each in self.begun:
            await each.stop()

    def kept(self):
        annotations = self.server.get("JobSet", "job", "team-a")["metadata"]["annotations"]
        return json.loads(annotations.get(trainings.ANNOTATION, "null"))

    def patches(self):
        return [each for each in self.server.log if each[:2] == ("PATCH", "jobsets")]

    async def settled(self, marker="job-mark"):
        """Wait until a report that was made now has been written, so that all before it were looked at."""
        self.server.put(
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": marker, "namespace": "team-a", "uid": marker},
            }
        )
        self.server.put(pod(f"{marker}-0-0-x", said(), job=marker, uid=marker))
        await waits.until(lambda: self.server.get("JobSet", marker, "team-a")["metadata"].get("annotations"))


@pytest.fixture
async def scene(caplog):
    """A scene in which nothing fails by a defect."""
    made = Scene()
    yield made
    await made.stop()
    assert [each for each in caplog.get_records("call") if "defect" in each.getMessage()] == []


async def test_what_the_guard_reported_is_kept_when_the_pod_is_gone(scene):
    scene.start()
    scene.server.put(pod("job-node-0-0-a"))
    scene.server.put(pod("job-node-0-0-a", said()))
    await waits.until(scene.kept)
    scene.server.remove("Pod", "job-node-0-0-a", "team-a")
    await scene.settled()
    kept = scene.kept()
    assert (kept["worldSize"], kept["expected"], kept["outcome"], kept["pod"]) == (2, "2", "as-asked", "job-node-0-0-a")
    assert scene.server.get("JobSet", "job", "team-a")["metadata"]["annotations"]["theirs"] == "stays"
    await waits.until(lambda: scene.outcomes == ["as-asked", "as-asked"])


async def test_in_named_namespaces_alone_reports_are_heard(scene):
    scene.server.put(namespace("team-b"))
    away = scene.server.get("JobSet", "job", "team-a")
    scene.server.put({**away, "metadata": {**away["metadata"], "namespace": "team-b", "annotations": {}}})
    scene.server.put(
        {**(elsewhere := pod("job-node-0-0-a", said())), "metadata": {**elsewhere["metadata"], "namespace": "team-b"}}
    )
    scene.server.put(pod("job-node-0-0-a", said()))
    scene.start(namespaces=("team-a",))
    await waits.until(scene.kept)
    await scene.settled()
    assert {space for _, plural, space, _ in scene.server.log if plural == "jobsets"} == {"team-a"}


async def test_a_pod_that_is_deleted_at_once_has_been_heard(scene):
    scene.start()
    await scene.settled()
    scene.server.put(pod("job-node-0-0-a"))
    scene.server.put(pod("job-node-0-0-a", "muster: this training has 1 rank, but 2 were asked for (X=2). Launch it."))
    scene.server.remove("Pod", "job-node-0-0-a", "team-a")
    await waits.until(scene.kept)
    assert scene.kept()["outcome"] == "not-as-asked"


async def test_all_pods_of_a_training_cost_one_write_and_one_count(scene):
    for index in range(8):
        scene.server.put(pod(f"job-node-0-{index}-a", said()))
    scene.start()
    await waits.until(scene.kept)
    await scene.settled()
    assert [each for each in scene.patches() if each[-1] == "job"] == [("PATCH", "jobsets", "team-a", "job")]
    await waits.until(lambda: scene.outcomes == ["as-asked", "as-asked"])  # the job's and the marker's


async def test_another_leader_writes_and_counts_nothing_again(scene):
    scene.server.put(pod("job-node-0-0-a", said(worldSize=1)))
    first = scene.start()
    await waits.until(lambda: scene.outcomes)
    await first.stop()
    scene.start()
    await scene.settled()
    await waits.until(lambda: scene.outcomes == ["not-as-asked", "as-asked"])
    assert len(scene.patches()) == 2


async def test_a_job_that_was_created_again_does_not_get_the_report_of_the_earlier_one(scene):
    scene.make(uid="uid-second")
    scene.server.put(pod("job-node-0-0-a", said()))
    scene.start()
    await scene.settled()
    assert scene.kept() is None


async def test_a_job_that_is_created_again_between_reading_and_writing_does_not_get_it_either(scene):
    def replace(method, plural):
        if (method, plural) == ("PATCH", "jobsets"):
            scene.server.faults = lambda *_: None
            scene.make(uid="uid-second")

    scene.server.put(pod("job-node-0-0-a", said()))
    scene.server.faults = replace
    scene.start()
    await waits.until(lambda: scene.server.get("JobSet", "job", "team-a")["metadata"]["uid"] == "uid-second")
    await scene.settled()
    assert scene.kept() is None


async def test_a_pod_that_no_kubernetes_job_made_is_not_heard(scene):
    scene.server.put(pod("forged", said(worldSize=1), ownerReferences=[]))
    scene.start()
    await scene.settled()
    assert scene.kept() is None


async def test_the_annotation_of_an_author_is_replaced_by_what_a_pod_reported(scene):
    scene.make(**{trainings.ANNOTATION: "all is well"})
    scene.server.put(pod("job-node-0-0-a", said(worldSize=1)))
    scene.start()
    await waits.until(lambda: scene.outcomes)
    assert scene.kept()["outcome"] == "not-as-asked"


async def test_a_write_that_was_refused_is_tried_again(scene):
    refusals = [403, 409, 500]

    def refuse(method, plural):
        if method == "PATCH" and plural == "jobsets" and refusals:
            raise RefusedError(refusals.pop(), "not now")

    scene.server.faults = refuse
    scene.server.put(pod("job-node-0-0-a", said()))
    scene.start()
    await waits.until(scene.kept)
    await waits.until(lambda: scene.outcomes == ["as-asked"])


async def test_only_one_of_two_replicas_leads(scene):
    first, second = scene.start(), scene.start()
    await waits.until(lambda: sum(each.leads()["muster-trainings"] for each in (first, second)) == 1)


def test_of_a_pod_only_its_report_is_in_memory():
    document = pod("job-node-0-0-a", said() + "\nhunter2" + "x" * 999)
    assert "hunter2" not in str(collecting.Speaker.from_document(document))


async def test_more_reports_than_may_wait_are_told_and_not_kept(scene, monkeypatch, caplog):
    monkeypatch.setattr(collecting, "_WAITING", 1)
    blocked = True

    def refuse(method, plural):
        if blocked and (method, plural) == ("PATCH", "jobsets"):
            raise RefusedError(500, "not now")

    scene.server.faults = refuse
    scene.server.put(pod("job-node-0-0-a", said()))
    scene.start()
    await waits.until(lambda: "to be done again" in caplog.text)
    scene.server.put(pod("other-node-0-0-a", said(), job="other", uid="other"))
    await waits.until(lambda: "too many reports of trainings wait" in caplog.text)
    blocked = False
    await waits.until(scene.kept)
