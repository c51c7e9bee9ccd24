"""Another program answers in Muster's place, late or with garbage: a CREATE is refused, an UPDATE passes.

This is the API server's doing, by Muster's webhook configuration; a wrong `failurePolicy` or `timeoutSeconds` there
fails here. Muster itself is not in it.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from e2e.suites.outage import impostor as program
from e2e.suites.outage import jobs, outages
from e2e.suites.support import documents, thorough
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.usefixtures("impostor")

RUNTIME = documents.training_runtime("rt")
FINE, TARDY = "", "tardy"
BAD = sorted(program.ANSWERS.keys() - {FINE, TARDY})
SLOW = ("late", "error-429")  # each call takes the whole timeout: to 429 the API server tries again
# The API server takes this for an answer that it cannot carry out, not for a call that failed (seen in v1.36.3), so
# `failurePolicy: Ignore` does not apply. Muster's own patches are tested for their form and for their fit.
UNFIT = "patch-that-does-not-fit"
UPDATES = sorted(set(BAD) - {UNFIT, "error-429"})


def asking(document: dict[str, Any], answer: str) -> dict[str, Any]:
    """Return a document that asks for an answer; updates of it are asked about, as of a job that Muster changed."""
    annotations = {program.ANSWER: answer, "muster.dev/applied": "{}"}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def trainjob(answer: str) -> dict[str, Any]:
    return asking(documents.trainjob("job", "rt", trainer={}), answer)


def jobset(answer: str) -> dict[str, Any]:
    return asking(documents.jobset("own", "torch", command=["torchrun", "train.py"]), answer)


@pytest.mark.parametrize("answer", thorough.but("html", of=BAD))
def test_a_create_is_refused_and_nothing_is_stored(space: Space, answer: str) -> None:
    space.apply(RUNTIME).expect()

    assert space.apply(trainjob(answer)).refused_with("Error from server"), answer
    assert answer in SLOW or space.apply(jobset(answer)).refused_with("Error from server")

    stored = space.all(f"{TRAINJOBS},{JOBSETS},jobs.batch,pods")
    assert stored == []
    snapshots = [each for each in space.all("configmaps") if each["metadata"]["name"] == "job-runtime-snapshot"]
    assert snapshots == []


@pytest.mark.parametrize("answer", thorough.but("html", of=UPDATES))
def test_an_update_passes_and_so_does_a_deletion(space: Space, answer: str) -> None:
    jobs.submit(space, RUNTIME, trainjob(FINE))
    space.apply(jobset(FINE)).expect()
    jobs.wait_running(space, "job")
    jobs.wait_running(space, "own")
    wish = {"metadata": {"annotations": {program.ANSWER: answer}}}

    space.patch(TRAINJOBS, "job", wish).expect()
    assert answer in SLOW or space.patch(JOBSETS, "own", wish).ok

    space.delete(TRAINJOBS, "job").expect()
    space.delete(JOBSETS, "own").expect()
    space.wait_gone(TRAINJOBS, "job")
    space.wait_gone(JOBSETS, "own")


@pytest.mark.thorough
def test_an_update_is_refused_on_a_patch_that_does_not_fit(space: Space) -> None:
    jobs.submit(space, RUNTIME, trainjob(FINE))
    space.apply(jobset(FINE)).expect()
    wish = {"metadata": {"annotations": {program.ANSWER: UNFIT}}}

    assert space.patch(TRAINJOBS, "job", wish).refused_with("Internal error")
    assert space.patch(JOBSETS, "own", wish).refused_with("Internal error")

    space.delete(TRAINJOBS, "job").expect()
    space.wait_gone(TRAINJOBS, "job")


@pytest.mark.thorough
def test_an_answer_that_is_late_is_waited_for_no_longer_than_the_timeout(
    space: Space, kubectl: Kubectl, say: outages.Say
) -> None:
    configuration = kubectl.get("mutatingwebhookconfigurations", "muster") or {}
    timeout = max(each["timeoutSeconds"] for each in configuration["webhooks"])
    space.apply(RUNTIME).expect()
    started = time.monotonic()

    answer = space.apply(trainjob("late"))

    taken = time.monotonic() - started
    assert answer.refused_with("failed calling webhook", '.muster.dev"', "context deadline exceeded")
    assert taken < program.LATE
    say(f"a CREATE was refused after {taken:.1f} s, timeoutSeconds being {timeout}")


@pytest.mark.thorough
def test_an_answer_within_the_timeout_is_waited_for(space: Space) -> None:
    jobs.submit(space, RUNTIME, trainjob(TARDY))

    until("the JobSet to be made", lambda: space.jobset("job"))
    space.delete(TRAINJOBS, "job").expect()
    space.wait_gone(TRAINJOBS, "job")
