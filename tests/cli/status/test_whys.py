"""The one sentence why a job is where it is, mostly of objects that were read from a real cluster."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest
from msgspec import structs

from muster.strategies.platform.seats import Seat, format_seats
from muster.webhook.cli import diagnosis, job_status
from muster.webhook.controllers import guards, trainings
from muster.webhook.controllers.trainings import Report
from tests.cli.status.recordings import NAMES, container, event, gathered

RECORDED = {
    "crashes": (
        "Failed",
        "failed",
        "failed: jobset failed due to one or more job failures (first failed job: crashes-node-0)",
    ),
    "fails": (
        "Waiting",
        "unschedulable",
        "cannot be scheduled: 0/2 nodes are available: 2 node(s) had untolerated taint",
    ),
    "finishes": ("Finished", "finished", "finished with 1 rank, as was asked for"),
    "own": ("Suspended", "suspended", "is suspended by kubectl-create: spec.suspend is true"),
    "pulls": ("Waiting", "image-not-pulled", "cannot pull image muster.test/none:0: Back-off pulling image"),
    "quota": ("Waiting", "pods-not-made", "the quota of its namespace has no room for its pods: Error creating: pods"),
    "running": ("Running", "running", "runs: 2 pods"),
    "smaller": ("Waiting", "ended-by-guard", "the guard ended it: the training had 1 rank, and 2 were asked for;"),
    "steps": ("Waiting", "depends", "replicated job node waits for dataset-initializer to complete"),
    "suspended": ("Suspended", "suspended", "is suspended by kubectl-create: spec.suspend is true"),
    "unschedulable": ("Waiting", "unschedulable", "2 node(s) had untolerated taint(s)"),
}


def told(found):
    status = job_status.of(found)
    return status["phase"], status["why"]["code"], status["why"]["text"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_job_has_its_sentence(name):
    phase, code, text = told(gathered(name))
    assert (phase, code) == RECORDED[name][:2]
    assert RECORDED[name][2] in text


def without_pods(name="unschedulable", **changes):
    return gathered(name, **{"pods": [], "events": [], **changes})


MISSING_CLAIM = "spec.replicatedJobs[0]: a claim is missing (muster core/claims)"
MISSING_RUNTIME = 'TrainJob resources creation failed: TrainingRuntime.trainer.kubeflow.org "away" not found'


def denied_jobset(by="validate.jobsets.muster.dev"):
    text = f'TrainJob resources creation failed: admission webhook "{by}" denied the request: {MISSING_CLAIM}'
    return event("TrainJobResourcesCreationFailed", text)


def conditioned(found, kind, reason, message):
    """The same job, of whose TrainJob a condition is true."""
    job = copy.deepcopy(found.trainjob)
    job["status"] = {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]}
    return structs.replace(found, trainjob=job)


def edited(found, member, **metadata):
    document = copy.deepcopy(getattr(found, member))
    document["metadata"] |= metadata
    return structs.replace(found, **{member: document})


def gated(uid="u1", **held):
    """A job that waits for a seat of a claim, which others hold."""
    found = gathered("unschedulable")
    pod = copy.deepcopy(found.pods[0])
    pod["metadata"]["uid"] = uid
    pod["spec"]["schedulingGates"] = [{"name": "muster.dev/seat"}]
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "muster-sampler-0"}]
    since = {"a": "2026-11-23T14:00:00Z", "b": "2026-11-23T16:00:00Z"}
    seats = {key: Seat(f"{job}-0", job, since[job]) for key, job in held.items()}
    claim = {
        "metadata": {
            "name": "muster-sampler-0",
            "namespace": "recorded",
            "annotations": {"muster.dev/seats": format_seats(seats)},
        }
    }
    return structs.replace(found, pods=[pod], claims=[claim])


def kept(found, said):
    report = Report(0, "job-node-0-0-abcde", "2026-11-23T16:00:00Z", said)
    return edited(found, "jobset", annotations={trainings.ANNOTATION: trainings.format_report(report)})


APART = guards.Guarded(2, guards.Expected(2, 2), 8, 1.5, "gradients-not-shared")
DIFFER = guards.Guarded(2, guards.Expected(2, 2), 8, 1.5, "weights-differ")
WRONG, RIGHT = guards.Guarded(1, guards.Expected(2, 2)), guards.Guarded(2, guards.Expected(2, 2), 8, 1.5)
OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
LAST = {"terminated": {"exitCode": 1, "reason": "Error", "message": "Traceback\nValueError: no such dataset\n"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
PENDING = gathered("unschedulable")
POD = PENDING.pods[0]["metadata"]["name"]

TORN = {"terminated": {"exitCode": 78, "reason": "Error", "message": "{}\nmuster: run/3: it is torn\n"}}

CASES = {
    "failed by its weights": (
        kept(conditioned(without_pods(), "Failed", "JobsFailed", "jobset failed"), DIFFER),
        (
            "Failed",
            "failed-by-weights",
            "failed because its sampler served other weights than were trained; the guard ended it",
        ),
    ),
    "failed by weights that were refused, while its pods are there": (
        kept(
            conditioned(container(PENDING, TORN, OOM), "Failed", "JobsFailed", "jobset failed"),
            dataclasses.replace(DIFFER, verdict="weights-refused"),
        ),
        (
            "Failed",
            "failed-by-weights",
            (
                "failed because its sampler refused the weights that it was sent; the guard ended it;"
                f" pod {POD}: exit code 78, the guard's: muster: run/3: it is torn"
            ),
        ),
    ),
    "failed by its guard": (
        kept(conditioned(container(PENDING, TORN), "Failed", "JobsFailed", "jobset failed"), APART),
        (
            "Failed",
            "failed-by-guard",
            (
                "failed because its ranks trained apart, with gradients of their own; the guard ended it;"
                f" pod {POD}: exit code 78, the guard's: muster: run/3: it is torn"
            ),
        ),
    ),
    "failed by something else, after a fault was reported": (
        kept(conditioned(container(PENDING, OOM), "Failed", "JobsFailed", "jobset failed"), APART),
        ("Failed", "failed", f"failed: jobset failed; pod {POD}: OOMKilled"),
    ),
    "refused": (
        without_pods(trainjob=None, jobset=None, events=[event("MusterDenied", "refused for ann: spec: wrong (x/y)")]),
        ("Refused", "refused", "was refused when somebody created it: refused for ann: spec: wrong (x/y)"),
    ),
    "failed by its size": (
        kept(conditioned(without_pods(), "Failed", "JobsFailed", "jobset failed"), WRONG),
        (
            "Failed",
            "failed-by-world-size",
            "failed because the training had 1 rank, and 2 were asked for; the guard ended it",
        ),
    ),
    "failed, and its pod is still there": (
        conditioned(container(PENDING, OOM), "Failed", "JobsFailed", "jobset failed"),
        ("Failed", "failed", f"failed: jobset failed; pod {POD}: OOMKilled"),
    ),
    "its deadline": (
        conditioned(without_pods(jobset=None), "Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline"),
        ("Failed", "failed", "failed: TrainJob exceeded its active deadline"),
    ),
    "finished with another size": (
        kept(conditioned(without_pods(), "Complete", "JobsCompleted", "done"), WRONG),
        ("Finished", "finished", "finished, but the training had 1 rank, and 2 were asked for"),
    ),
    "finished as asked": (
        kept(conditioned(without_pods(), "Complete", "JobsCompleted", "done"), RIGHT),
        ("Finished", "finished", "finished with 2 ranks, as was asked for"),
    ),
    "being deleted": (
        edited(PENDING, "trainjob", deletionTimestamp="2026-11-23T16:00:00Z", finalizers=["team/keeps"]),
        ("Waiting", "being-deleted", "is being deleted, and waits for team/keeps"),
    ),
    "Kueue": (
        edited(gathered("suspended"), "trainjob", labels={"kueue.x-k8s.io/queue-name": "gpus"}),
        (
            "Suspended",
            "suspended-by-kueue",
            "is suspended: Kueue has not admitted it from queue gpus, which waits for quota",
        ),
    ),
    "only the JobSet is suspended": (
        gathered("suspended", trainjob=gathered("running").trainjob),
        (
            "Suspended",
            "suspended",
            "its JobSet is suspended by trainer, though its TrainJob is not: spec.suspend is true",
        ),
    ),
    "a runtime is gone": (
        without_pods(
            jobset=None,
            events=[
                event("TrainJobResourcesCreationFailed", MISSING_RUNTIME),
            ],
        ),
        (
            "Waiting",
            "runtime-missing",
            f"its runtime is missing: {MISSING_RUNTIME}",
        ),
    ),
    "the JobSet is refused": (
        without_pods(jobset=None, events=[denied_jobset()]),
        (
            "Waiting",
            "jobset-refused",
            f"its JobSet was refused by webhook validate.jobsets.muster.dev: {MISSING_CLAIM}",
        ),
    ),
    "a change of the JobSet is refused": (
        without_pods("suspended", jobset=gathered("running").jobset, events=[denied_jobset("vjobset.kb.io")]),
        (
            "Waiting",
            "change-refused",
            f"is to be suspended, but the change of its JobSet was refused by webhook vjobset.kb.io: {MISSING_CLAIM}",
        ),
    ),
    "a refusal that was mended": (
        gathered("running", events=[denied_jobset()]),
        ("Running", "running", "runs: 2 pods"),
    ),
    "no JobSet yet": (
        without_pods(jobset=None),
        ("Waiting", "jobset-not-made", "waits for Trainer to make its JobSet"),
    ),
    "a seat": (
        gated(u8="a", u9="a", u7="b"),
        (
            "Waiting",
            "waits-for-seat",
            "waits for a seat on ResourceClaim muster-sampler-0, behind job a (2 seats) for 2h, job b for 23m",
        ),
    ),
    "a seat that is free": (
        gated(),
        (
            "Waiting",
            "waits-for-seat",
            "waits for a seat on ResourceClaim muster-sampler-0, which Muster has not given yet",
        ),
    ),
    "a crash loop": (
        container(PENDING, BACK_OFF, LAST, 7),
        (
            "Waiting",
            "crashing",
            f"pod {POD} crashes again and again (7 restarts): exit code 1: ValueError: no such dataset",
        ),
    ),
    "a container that cannot be started": (
        container(PENDING, {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hub" not found'}}),
        (
            "Waiting",
            "container-not-started",
            f'container node of pod {PENDING.pods[0]["metadata"]["name"]} cannot be started: secret "hub" not found',
        ),
    ),
    "a container that is being started": (
        container(PENDING, {"waiting": {"reason": "ContainerCreating"}}),
        ("Starting", "starting", f"pod {POD} is being started: ContainerCreating"),
    ),
    "no pods yet": (without_pods(), ("Waiting", "no-pods", "waits for Kubernetes to make its pods")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_job_has_its_sentence(name):
    found, expected = CASES[name]
    assert told(found) == expected


def test_every_answer_of_the_table_but_rare_ones_is_given_here():
    given = {code for _, code, _ in (*RECORDED.values(), *(expected for _, expected in CASES.values()))}
    assert {each.code for each in diagnosis.TABLE} - given == {"gated", "restarting"}


def test_a_gate_of_others_and_a_restart_are_told():
    gates = copy.deepcopy(gathered("unschedulable", events=[]).pods[0])
    gates["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    gates["status"] = {"phase": "Pending"}
    assert told(gathered("unschedulable", pods=[gates]))[1] == "gated"
    assert told(conditioned(without_pods(), "RestartingJobSet", "x", "y"))[1] == "restarting"


def test_a_training_that_runs_with_another_size_says_so():
    _, code, text = told(kept(gathered("running"), WRONG))
    assert (code, text) == ("running", "runs: 2 pods; but the training had 1 rank, and 2 were asked for")


@pytest.mark.parametrize("secret", ["hf_abcdefghijklmnopqrstuvwxyz0123456789", "HF_TOKEN=hunter2hunter2"])
def test_no_secret_is_in_last_words_or_in_what_others_said(secret):
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": f"cannot log in with {secret}"}}
    found = container(gathered("unschedulable"), BACK_OFF, ended)
    said = json.dumps(job_status.of(found))
    assert "log in with" in said
    assert secret.rpartition("=")[2] not in said


def test_what_is_quoted_is_short():
    ended = {"terminated": {"exitCode": 1, "message": "x" * 4096}}
    assert len(told(container(gathered("unschedulable"), BACK_OFF, ended))[2]) < 500
