"""`muster status` tells what became of jobs, from the objects that real controllers made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.support import documents, guards, spaces, statuses
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("status")

CLAIM = "muster-e2e-status-0"
PROFILE = {"muster.dev/profile": "e2e-status"}
HELD = {"uid": {"pod": "first-node-0-0-abcde", "job": "first", "since": "2026-11-23T10:00:00Z"}}


@pytest.fixture(scope="module")
def there(kubectl: Kubectl) -> Iterator[Space]:
    """A namespace with one job of each kind; they belong to this module's tests together."""
    made = Space(spaces.named("status"), kubectl).make()
    made.create(documents.training_runtime("fake", nodes=2), documents.training_runtime("away", fake=False)).expect()
    jobs = (
        documents.trainjob("suspended", "fake", suspend=True),
        documents.trainjob("running", "fake", trainer={"numNodes": 2}),
        documents.trainjob("unschedulable", "away"),
        documents.trainjob("smaller", "away"),
        waiting(),
    )
    for job in jobs:
        until(f"{job['metadata']['name']} to be created", lambda job=job: created(made, job))
    made.create(claim()).expect()
    yield made
    made.remove()


def test_each_job_has_its_phase_and_its_sentence(there: Space, kubectl: Kubectl) -> None:
    expected = {
        "running": ("Running", "running"),
        "second": ("Waiting", "waits-for-seat"),
        "suspended": ("Suspended", "suspended"),
        "unschedulable": ("Waiting", "unschedulable"),
    }

    def look() -> bool:
        stories = {each["name"]: each for each in statuses.told(kubectl, "-n", there.name)}
        found = {name: (stories[name]["phase"], stories[name]["why"]["code"]) for name in expected}
        assert found == expected, stories
        return True

    until("all stories to be told", look)


def test_who_waits_for_a_seat_is_told_behind_whom(there: Space, kubectl: Kubectl) -> None:
    (seat,) = until("the seat", lambda: statuses.told(kubectl, "second", "-n", there.name)["seats"])
    assert seat["claim"] == CLAIM
    assert [each["name"] for each in seat["holders"]] == ["job first"]
    assert len(seat["waiting"]) == 1
    told = " ".join(" ".join(statuses.lines(kubectl, "second", "-n", there.name)[1:]).split())  # however it is wrapped
    assert told.startswith(f"waits for a seat on ResourceClaim {CLAIM}, behind job first for ")


def test_a_training_of_the_wrong_size_is_told_and_fails_the_check(there: Space, kubectl: Kubectl) -> None:
    until("its pod", lambda: there.pods("jobset.sigs.k8s.io/jobset-name=smaller"))
    guards.report(there, "smaller", size=1, expected=2)
    told = until("its size", lambda: sized(statuses.told(kubectl, "smaller", "-n", there.name, "--check")))
    assert told["world"] | {"pod": ""} == {
        "asked": "2",
        "predicted": "open",
        "reached": 1,
        "right": False,
        "source": "pod",
        "pod": "",
        "steps": 8,
        "seconds": 14.2,
    }


@pytest.mark.thorough
def test_what_is_kept_on_a_jobset_survives_suspension_and_makes_nobody_work(there: Space, kubectl: Kubectl) -> None:
    kept = {"schema": "muster.dev/kept-training/v1", "outcome": "as-asked", "worldSize": 2, "expected": "2"}
    kept |= {"attempt": 0, "pod": "running-node-0-0-abcde", "created": "2026-11-23T10:00:00Z"}
    until("it to run", lambda: there.pods("jobset.sigs.k8s.io/jobset-name=running"))
    there.patch("jobset", "running", {"metadata": {"annotations": {guards.KEPT: json.dumps(kept)}}}).expect()
    for suspend in (True, False):
        there.patch("trainjob", "running", {"spec": {"suspend": suspend}}).expect()
        until("Trainer to apply it", lambda suspend=suspend: there.jobset("running")["spec"]["suspend"] is suspend)
    told = until("its pods", lambda: running(statuses.told(kubectl, "running", "-n", there.name)))
    assert (told["world"]["reached"], told["world"]["source"]) == (2, "kept")
    before = settled(there)
    there.patch("jobset", "running", {"metadata": {"annotations": {guards.KEPT: json.dumps({**kept, "steps": 8})}}})
    until("the annotation", lambda: settled(there) != before)
    # JobSet and Trainer have seen the change when they have done something that came after it.
    there.patch("trainjob", "unschedulable", {"spec": {"suspend": True}}).expect()
    changed = settled(there)
    until("Trainer to apply that", lambda: there.jobset("unschedulable")["spec"]["suspend"])
    assert settled(there) == changed
    there.patch("trainjob", "unschedulable", {"spec": {"suspend": False}}).expect()


def test_a_refused_job_is_told_from_the_audit_log(
    there: Space, kubectl: Kubectl, installation: Installation, tmp_path: Path
) -> None:
    there.create(documents.trainjob("refused", "fake", trainer={"numNodes": 0}))
    until("its refusal", lambda: any(is_refusal(each) for each in installation.audit(there.name)))
    records = [each for each in installation.audit(there.name) if is_of(each, "refused")]
    log = tmp_path / "audit.log"
    log.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    told = statuses.told(kubectl, "refused", "-n", there.name, "--audit", str(log))
    assert (told["phase"], told["why"]["code"]) == ("Refused", "refused")
    assert "spec.trainer.numNodes" in told["why"]["text"]


def is_refusal(record: dict[str, Any]) -> bool:
    """Whether a record is of the phase that refuses; that of the phase before is written earlier."""
    return is_of(record, "refused") and record["decision"] == "denied"


def created(space: Space, job: dict[str, Any]) -> bool:
    """Create a job; Trainer has to know its runtime before, which takes it a moment."""
    kind, name = job["kind"].lower(), job["metadata"]["name"]
    return space.get(kind, name) is not None or space.create(job).code == 0


def waiting() -> dict[str, Any]:
    """A JobSet whose pod waits for a seat that nobody gives: no controller knows its profile."""
    job = documents.jobset("second", framework=None, fake=False)
    template = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": PROFILE}
    template["spec"]["schedulingGates"] = [{"name": "muster.dev/seat"}]
    template["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": CLAIM}]
    return job


def claim() -> dict[str, Any]:
    """A shared claim whose only seat another job has."""
    labels = {**PROFILE, "app.kubernetes.io/managed-by": "muster"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "e2e-status"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": CLAIM, "labels": labels, "annotations": {"muster.dev/seats": json.dumps(HELD)}},
        "spec": {"devices": {"requests": [request]}},
    }


def running(story: dict[str, Any]) -> dict[str, Any] | None:
    """Return a story of a job that runs."""
    return story if story["phase"] == "Running" else None


def settled(space: Space) -> tuple[str, str]:
    """Return the versions of TrainJob and JobSet `running`, which each write changes."""
    found = (space.get(kind, "running") for kind in ("trainjob", "jobset"))
    first, second = ((each or {})["metadata"]["resourceVersion"] for each in found)
    return first, second


def sized(story: dict[str, Any]) -> dict[str, Any] | None:
    """Return a story in which the size is known."""
    return story if story["world"]["reached"] else None


def is_of(record: dict[str, Any], name: str) -> bool:
    """Whether an audit record is about a job."""
    return bool(record["object"]["name"] == name)
