"""A manager hands a job to a worker cluster, each of which has a Muster of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.kueue import kueues
from e2e.suites.kueue.conftest import CHECK
from e2e.suites.kueue.test_queues import QUEUED, QUOTA
from e2e.suites.support import spaces, waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.validation import jobs


@pytest.fixture
def both(kueue: Kubectl, worker: Kubectl, request: pytest.FixtureRequest) -> Iterator[tuple[Space, Space]]:
    """The namespace of a team in the manager and in the worker, with a queue in each."""
    name = spaces.named(request.node.name)
    made = Space(name, kueue).make(), Space(name, worker).make()
    kueues.queue(kueue, name, QUOTA, checks=[CHECK])
    kueues.queue(worker, name, QUOTA)
    yield made
    for each in made:
        each.remove()


def test_a_job_that_the_manager_corrected_is_left_alone_and_runs_in_the_worker(
    both: tuple[Space, Space], worker_audit: Path
) -> None:
    manager, worker = both
    manager.apply(handed("job")).expect()

    there = waits.until("the worker to get the job", lambda: worker.trainjob("job"), 90)
    here = manager.trainjob("job") or {}
    assert here["spec"]["managedBy"] == kueues.MULTIKUEUE
    assert here["spec"]["trainer"]["command"] == jobs.MENDED
    assert there["spec"]["trainer"] == here["spec"]["trainer"]
    assert there["spec"]["managedBy"] != kueues.MULTIKUEUE
    assert ours(there) == ours(here), "what Muster remembers of the job came with the job"
    assert changes(worker_audit, worker, "TrainJob") == [], "Muster of the worker had nothing left to change"
    jobset = worker.wait_jobset("job", 60)
    (container,) = jobset["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == jobs.MENDED
    assert manager.jobset("job") is None, "Trainer of the manager leaves a job that Kueue hands on"


def test_a_job_that_cannot_run_is_refused_by_the_manager_before_any_worker_sees_it(both: tuple[Space, Space]) -> None:
    manager, worker = both
    wrong = handed("wrong", args=(*jobs.NEEDED, "--learning_rte=2e-5"))

    outcome = manager.apply(wrong)

    assert outcome.refused_with("did you mean --learning_rate?"), outcome
    assert worker.trainjob("wrong") is None


def test_a_job_that_is_deleted_in_the_manager_goes_from_the_worker(both: tuple[Space, Space]) -> None:
    manager, worker = both
    manager.apply(handed("job")).expect()
    waits.until("the worker to get the job", lambda: worker.trainjob("job"), 90)

    manager.delete("trainjob", "job").expect()

    waits.until("the worker's job to go", lambda: worker.trainjob("job") is None, 90)


def handed(name: str, **options: Any) -> dict[str, Any]:
    """Return a job of two GPUs that the manager's Trainer leaves to MultiKueue."""
    job = jobs.sft(name, labels=QUEUED, managedBy=kueues.MULTIKUEUE, **options)
    del job["spec"]["suspend"]
    return job


def ours(job: dict[str, Any]) -> dict[str, str]:
    """Return Muster's annotations of an object."""
    annotations = job["metadata"].get("annotations", {})
    return {name: value for name, value in annotations.items() if name.startswith("muster.dev/")}


def changes(log: Path, space: Space, kind: str) -> list[Any]:
    """Return all that a Muster changed of a kind in a namespace, by its audit log."""

    def records() -> list[dict[str, Any]]:
        lines = map(json.loads, log.read_text().splitlines())
        wanted = (space.name, kind)
        return [each for each in lines if (each["object"]["namespace"], each["object"]["kind"]) == wanted]

    found = waits.until(f"a record of a {kind} in {space.name}", records, 30)
    return [change for each in found for change in each["changes"]]
