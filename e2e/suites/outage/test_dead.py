"""Muster is dead: no new job is admitted, running jobs continue, and everything recovers without help."""

from __future__ import annotations

import secrets
from functools import partial

import pytest

from e2e.suites.outage import jobs, outages
from e2e.suites.support import documents, thorough
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

RUNTIME = documents.training_runtime("plain", nodes=2)
JOB = documents.trainjob("job", "plain")
OWN = documents.jobset("own", "torch", command=["torchrun", "train.py"])


@pytest.mark.parametrize("document", thorough.but_named("TrainJob", of={"TrainJob": JOB, "JobSet": OWN}))
def test_a_job_is_refused_in_words_that_name_the_webhook_and_nothing_is_stored(
    space: Space, muster: Installation, document: dict[str, object]
) -> None:
    space.apply(RUNTIME).expect()
    outages.die(muster)

    answer = space.apply(document)

    assert answer.refused_with("failed calling webhook", '.muster.dev"'), answer
    assert "connect" in answer.err or "no endpoints" in answer.err, answer
    assert space.all(f"{TRAINJOBS},{JOBSETS},jobs.batch") == []
    muster.start()
    until("the job to be stored", lambda: space.apply(document).ok, 10)
    assert jobs.is_added_to(space.wait_jobset("job" if document is JOB else "own"))


@pytest.mark.thorough
def test_server_side_apply_and_dry_run_are_refused_as_well(space: Space, muster: Installation) -> None:
    space.apply(RUNTIME).expect()
    outages.die(muster)

    assert space.apply(JOB, server_side=True).refused_with('.muster.dev"')
    assert space.apply(JOB, dry_run=True).refused_with('.muster.dev"')
    assert space.trainjob("job") is None


def test_trainers_jobset_waits_for_muster_and_is_made_when_it_is_back(
    space: Space, muster: Installation, say: outages.Say
) -> None:
    jobs.submit(space, RUNTIME, JOB)
    first = space.wait_jobset("job")["metadata"]["uid"]
    outages.die(muster)
    space.delete(JOBSETS, "job", wait=True).expect()
    # Trainer notices the deletion by its watch, which takes up to a minute to come back after an API server's restart.
    until("Trainer to be refused because Muster is down", partial(_is_refused, space), 90)
    assert space.jobset("job") is None, "a JobSet got in without Muster"

    muster.start()

    seconds = outages.seconds_until("the JobSet to be made", lambda: space.jobset("job"), 180)
    made = space.wait_jobset("job")
    assert made["metadata"]["uid"] != first
    assert jobs.is_added_to(made)
    say(f"Trainer's JobSet was made {seconds:.1f} s after Muster's return")


def _is_refused(space: Space) -> bool:
    """Whether Trainer was refused because Muster is down; else make it try again.

    Of several refusals of one version of an object only the first is stored with its words (client-go counts the rest).
    """
    refused = any('.muster.dev"' in each for each in jobs.refusals(space, "job"))
    if not refused:
        space.patch(TRAINJOBS, "job", {"metadata": {"labels": {"touched": secrets.token_hex(4)}}}).expect()
    return refused


@pytest.mark.parametrize("kind", thorough.but(TRAINJOBS, of=[TRAINJOBS, JOBSETS]))
def test_an_update_passes(space: Space, muster: Installation, kind: str) -> None:
    jobs.submit(space, RUNTIME, JOB)
    space.wait_jobset("job")
    outages.die(muster)

    space.patch(kind, "job", {"metadata": {"labels": {"team": "a"}}}).expect()

    changed = space.get(kind, "job")
    assert changed is not None
    assert changed["metadata"]["labels"]["team"] == "a"
    assert jobs.applied(changed), "Muster's memory of the job was lost"


def test_every_kind_of_job_can_be_deleted(space: Space, muster: Installation) -> None:
    jobs.submit(space, RUNTIME, JOB)
    space.apply(OWN).expect()
    space.wait_jobset("job")
    outages.die(muster)

    space.delete(TRAINJOBS, "job").expect()
    space.delete(JOBSETS, "own").expect()

    space.wait_gone(TRAINJOBS, "job")
    space.wait_gone(JOBSETS, "job")
    space.wait_gone(JOBSETS, "own")
    until("the pods to be gone", lambda: space.pods() == [])


@pytest.mark.thorough
def test_a_namespace_with_jobs_can_be_deleted(space: Space, muster: Installation) -> None:
    jobs.submit(space, RUNTIME, JOB)
    space.wait_jobset("job")
    outages.die(muster)

    space.remove()

    until("the namespace to be gone", lambda: space.kubectl.get("namespace", space.name) is None, 60)


def test_a_running_job_ends_and_its_status_says_so(space: Space, muster: Installation) -> None:
    held = documents.trainjob("job", "short", trainer={}, suspend=True)
    jobs.submit(space, documents.training_runtime("short", ends=True), held)
    space.wait_jobset("job")
    outages.die(muster)

    jobs.resume(space, "job")

    ended = space.wait_trainjob("job", "Complete")
    assert ended["status"]["jobsStatus"][0]["succeeded"] == 1
