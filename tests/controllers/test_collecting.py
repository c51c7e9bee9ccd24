"""What the guard reported is written on the JobSet, once, by the replica that leads."""

from __future__ import annotations

import copy
import json

import pytest

from muster.webhook.controllers import collecting, trainings
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace
from tests.support import waits

REPORT = {"schema": "muster.dev/training/v1", "worldSize": 2, "expected": "2", "rank": 0, "steps": 8, "wallSeconds": 1}

METRICS = {"loss": "1.5", "muster.dev/world-size": "2", "muster.dev/expected-world-size": "2"}
RIGHT = {"muster.dev/applied": json.dumps({"strategy": "torch", "version": "1", "fields": {}, "predicted": "right"})}


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
        self.outcomes, self.predictions = [], []
        self.begun = []
        self.server.put(namespace())
        self.server.put(namespace("muster-system"))
        self.make()

    def make(self, uid="uid-job", **annotations):
        metadata = {"name": "job", "namespace": "team-a", "uid": uid, "annotations": {"theirs": "stays", **annotations}}
        self.server.put({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {}})

    def own(self, uid="uid-trainjob", restarts=0, **annotations):
        """Have a TrainJob own the JobSet."""
        document = copy.deepcopy(self.server.get("JobSet", "job", "team-a"))
        owner = {"kind": "TrainJob", "name": "job", "uid": uid, "controller": True}
        document["metadata"] |= {"ownerReferences": [owner]}
        document["metadata"]["annotations"] |= annotations
        self.server.put({**document, "status": {"restarts": restarts}})

    def post(self, at="2026-11-28T10:00:00Z", uid="uid-trainjob", **metrics):
        """Have a pod of the TrainJob post metrics."""
        found = METRICS | {f"muster.dev/{name.replace('_', '-')}": value for name, value in metrics.items()}
        listed = [{"name": name, "value": value} for name, value in found.items()]
        self.server.put(
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "metadata": {"name": "job", "namespace": "team-a", "uid": uid},
                "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}},
                "status": {"trainerStatus": {"lastUpdatedTime": at, "metrics": listed}},
            }
        )

    def events(self):
        return self.server.all("Event")

    def start(self, **options):
        made = collecting.Collecting(self.server.connection(), collecting.CollectingOptions(**options), self.told)
        made.start()
        self.begun.append(made)
        return made

    def told(self, outcome, predicted):
        self.outcomes.append(outcome)
        self.predictions.append(predicted)

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


async def test_what_a_guard_posts_is_kept_while_the_training_runs(scene):
    scene.own()
    scene.start()
    scene.server.put(pod("job-node-0-0-a"))
    scene.post(nodes="2", gradients="shared", first_step_seconds="12.5")
    await waits.until(scene.kept)
    kept = scene.kept()
    assert (kept["worldSize"], kept["expected"], kept["outcome"], kept["pod"]) == (2, "2", "as-asked", "")
    assert kept["measured"] == {"nodes": 2, "gradients": "shared", "firstStepSeconds": 12.5}
    await scene.settled()
    assert scene.events() == []
    assert scene.outcomes == ["as-asked"]  # the marker's: a training that runs may still become another


async def test_a_training_that_posts_and_then_ends_is_counted_once_with_what_was_foretold(scene):
    scene.own(**RIGHT)
    scene.start()
    scene.post()
    await waits.until(scene.kept)
    scene.server.put(pod("job-node-0-0-a", said()))
    await waits.until(lambda: scene.kept()["pod"])
    await scene.settled()
    await waits.until(lambda: len(scene.outcomes) == 2)
    assert scene.outcomes == ["as-asked", "as-asked"]
    assert scene.predictions == ["right", "open"]  # the marker's JobSet has no memory
    assert scene.kept()["predicted"] == "right"


async def test_a_measured_fault_is_told_once_in_an_attempt_by_an_event_on_the_trainjob(scene):
    scene.own(**RIGHT)
    scene.start()
    scene.post()
    await waits.until(scene.kept)
    scene.post("2026-11-28T10:00:05Z", verdict="gradients-not-shared", gradients="not-shared")
    await waits.until(lambda: scene.outcomes)
    scene.post("2026-11-28T10:00:09Z", verdict="device-shared")
    scene.server.put(pod("job-node-0-0-a", said(verdict="gradients-not-shared")))
    await waits.until(lambda: scene.kept()["pod"])
    await scene.settled()
    (event,) = scene.events()
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("TrainJob", "job", "uid-trainjob")
    assert (event["type"], event["reason"]) == ("Warning", collecting.REASON)
    assert event["message"].startswith("the training has 2 ranks, which train apart: ")
    assert (scene.outcomes[0], scene.predictions[0]) == ("not-as-asked", "right")


async def test_a_jobset_without_a_trainjob_has_the_event_itself(scene):
    scene.start()
    scene.server.put(pod("job-node-0-0-a", "muster: this training has 1 rank, but 2 were asked for (X=2). Launch it."))
    await waits.until(scene.events)
    (event,) = scene.events()
    assert (event["involvedObject"]["kind"], event["involvedObject"]["uid"]) == ("JobSet", "uid-job")
    asked = "the training has 1 rank, but 2 were asked for; launch it with torchrun, or let Muster do so."
    assert event["message"] == asked


async def test_each_attempt_has_an_event_of_its_own(scene):
    wrong = "muster: this training has 1 rank, but 2 were asked for (X=2). Launch it."
    scene.start()
    scene.server.put(pod("job-node-0-0-a", wrong))
    await waits.until(lambda: scene.outcomes)
    scene.server.put(pod("job-node-0-0-b", wrong, attempt="1"))
    await waits.until(lambda: len(scene.events()) == 2)


async def test_the_next_leader_writes_no_second_event_where_the_first_could_not_annotate(scene):
    def refuse(method, plural):
        if (method, plural) == ("PATCH", "jobsets"):
            raise RefusedError(500, "not now")

    scene.server.faults = refuse
    scene.server.put(pod("job-node-0-0-a", said(verdict="devices-idle")))
    first = scene.start()
    await waits.until(scene.events)
    await first.stop()
    scene.server.faults = lambda *_: None
    scene.start()
    await waits.until(lambda: scene.outcomes)
    assert len(scene.events()) == 1


async def test_without_the_right_to_write_events_the_report_is_kept_all_the_same(scene, caplog):
    def refuse(_method, plural):
        if plural == "events":
            raise RefusedError(403, "events is forbidden")

    scene.server.faults = refuse
    scene.server.put(pod("job-node-0-0-a", said(worldSize=1, verdict="size-differs")))
    scene.start()
    await waits.until(lambda: scene.outcomes)
    assert scene.kept()["verdict"] == "size-differs"
    assert "event on a training not written" in caplog.text


async def test_a_trainjob_that_does_not_own_the_jobset_of_its_name_speaks_for_nobody(scene):
    scene.own(uid="of-another")
    scene.post(verdict="device-shared")
    scene.start()
    await scene.settled()
    assert scene.kept() is None
    assert scene.events() == []


async def test_a_status_from_before_a_restart_is_not_about_the_new_attempt(scene):
    scene.own()
    first = scene.start()
    scene.server.put(pod("job-node-0-0-a", said()))
    await waits.until(scene.kept)
    await first.stop()
    scene.own(restarts=1)
    scene.post("2026-11-28T10:00:00Z", verdict="device-shared")  # long before what is kept was heard
    scene.start()
    await scene.settled()
    assert (scene.kept()["attempt"], scene.events()) == (0, [])
    scene.post("2999-01-01T00:00:00Z")
    await waits.until(lambda: scene.kept()["attempt"] == 1)


async def test_what_both_sources_say_at_once_is_judged_together(scene):
    scene.own()
    scene.post()
    scene.server.put(pod("job-node-0-0-a", said(verdict="devices-idle")))
    scene.start()
    await scene.settled()
    await waits.until(lambda: scene.kept() and scene.kept()["pod"])
    assert scene.kept()["verdict"] == "devices-idle"


async def test_a_cluster_without_trainer_keeps_what_pods_report(scene):
    def absent(_method, plural):
        if plural == "trainjobs":
            raise RefusedError(404, "the server could not find the requested resource")

    scene.server.faults = absent
    scene.server.put(pod("job-node-0-0-a", said()))
    scene.start()
    await waits.until(scene.kept)
