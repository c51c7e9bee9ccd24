"""The API server goes away and comes back, as in an upgrade of a control plane."""

from __future__ import annotations

import threading
import time
from functools import partial

from e2e.suites.outage import jobs, outages
from e2e.suites.scale import metrics
from e2e.suites.support import documents
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space, conditions
from e2e.suites.support.waits import until

LAUNCH = ["torchrun", "-m", "trl.scripts.sft"]
_ABSENT = "must be created before the TrainJob is created"  # Trainer's own webhook, whose cache lags as well


def test_jobs_of_new_and_of_changed_runtimes_are_answered_right_as_soon_as_it_is_back(
    space: Space, installation: Installation, say: outages.Say
) -> None:
    jobs.submit(space, documents.training_runtime("changed", "torch"), documents.trainjob("before", "changed"))
    installation.restart_api_server()
    started = time.monotonic()
    space.apply(
        documents.training_runtime("new", "trl", command=LAUNCH, args=jobs.TRL_ARGS),
        documents.training_runtime("changed", "trl", nodes=3, command=LAUNCH, args=jobs.TRL_ARGS),
    ).expect()

    for name in ("new", "changed"):
        job = documents.trainjob(f"of-{name}", name)
        answer = until("Trainer to know the runtime", partial(_answered, space, job), 60)
        assert answer == "stored", answer

    new, changed = space.trainjob("of-new"), space.trainjob("of-changed")
    assert new is not None
    assert changed is not None
    assert jobs.applied(new)["strategy"] == "trl"
    say(
        f"both were stored {time.monotonic() - started:.1f} s after the API server was ready again; the TrainJob of the"
        f" changed runtime was answered by {jobs.applied(changed)['strategy']} (trl is what it became)"
    )
    jobset = space.wait_jobset("of-changed", 60)
    assert jobs.env(jobset)["MUSTER_EXPECTED_WORLD_SIZE"] == "3"


def test_every_watch_goes_on(space: Space, installation: Installation, kubectl: Kubectl, say: outages.Say) -> None:
    installation.restart_api_server()
    kinds = {each["kind"] for name, each, _ in metrics.of(kubectl) if name == "muster_cluster_cache_age_seconds"}

    seconds = outages.seconds_until(
        "Muster to hear of a new namespace", lambda: _touch(space) and _youngest(kubectl, "Namespace") < 1, 60
    )
    until("Muster to hear of all kinds", lambda: max(_youngest(kubectl, kind) for kind in kinds) < 70, 90)

    say(f"{len(kinds)} watches went on; the first was seen after {seconds:.1f} s")


def test_what_was_under_way_is_neither_lost_nor_made_twice(space: Space, installation: Installation) -> None:
    runtime = documents.training_runtime("short", nodes=2, ends=True)
    jobs.submit(space, runtime, documents.trainjob("first", "short"))
    accepted: list[str] = ["first"]
    over = threading.Event()

    def create() -> None:
        number = 0
        while not over.is_set():
            name = f"job-{number}"
            if space.create(documents.trainjob(name, "short")).ok:
                accepted.append(name)
            number += 1

    stream = threading.Thread(target=create)
    stream.start()
    try:
        until("some jobs to be accepted", lambda: len(accepted) > 3)
        installation.restart_api_server()
        count = len(accepted)
        until("some more to be accepted", lambda: len(accepted) > count + 3, 60)
    finally:
        over.set()
        stream.join()

    until("all to be complete", lambda: all(_is_complete(each) for each in space.all("trainjobs")), 120)
    stored = {each["metadata"]["name"]: each for each in space.all("trainjobs")}
    assert set(accepted) <= stored.keys(), "a job that was accepted is lost"
    assert all(jobs.applied(each) for each in stored.values())
    assert all(jobs.is_added_to(each) for each in space.all("jobsets"))
    pods = [each["metadata"]["labels"]["job-name"] for each in space.pods()]
    assert len(pods) == 2 * len(stored)


def _answered(space: Space, job: dict[str, object]) -> str:
    """Return how a job was answered, "" while Trainer does not know the runtime."""
    answer = space.apply(job)
    return "" if answer.refused_with(_ABSENT) else "stored" if answer.ok else answer.err


def _youngest(kubectl: Kubectl, kind: str) -> float:
    return metrics.total(metrics.of(kubectl), "muster_cluster_cache_age_seconds", kind=kind)


def _touch(space: Space) -> bool:
    patch = {"metadata": {"labels": {"touched": str(time.monotonic())}}}
    return space.kubectl.patch("namespace", space.name, None, patch).ok


def _is_complete(trainjob: dict[str, object]) -> bool:
    return conditions(trainjob).get("Complete") == "True"
