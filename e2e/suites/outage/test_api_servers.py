"""The API server goes away and comes back, as in an upgrade of a control plane.

One restart serves all tests here: afterwards Trainer's own watches may take a minute to come back (client-go waits at
doubling distances), and until then Trainer refuses jobs of new runtimes and freezes a job's runtime more than once.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from e2e.suites.outage import jobs, outages
from e2e.suites.support import documents, metrics, spaces
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space, conditions
from e2e.suites.support.waits import until

pytestmark = pytest.mark.thorough

SETTLED = 150.0
_EARLY = ("must be created before the TrainJob is created", "failed calling webhook", "could not be read")
LAUNCH = ["torchrun", "-m", "trl.scripts.sft"]
SHORT = documents.training_runtime("short", nodes=2, ends=True)
CHANGED = documents.training_runtime("changed", "torch")
CHANGED_TO = documents.training_runtime("changed", "trl", nodes=3, command=LAUNCH, args=jobs.TRL_ARGS)
NEW = documents.training_runtime("new", "trl", command=LAUNCH, args=jobs.TRL_ARGS)


@dataclass(frozen=True, slots=True)
class Restarted:
    """A namespace over a restart.

    Attributes:
        space: the namespace.
        accepted: names of the TrainJobs that were accepted before, meanwhile and afterwards.
        since: clock reading when the API server was ready again.
    """

    space: Space
    accepted: list[str]
    since: float


class Stream(threading.Thread):
    """Create one job after another, whatever the answers are; a context."""

    def __init__(self, space: Space) -> None:
        super().__init__(name="stream", daemon=True)
        self._space = space
        self._over = threading.Event()
        self.accepted: list[str] = []

    def run(self) -> None:
        for number in itertools.count():
            if self._over.wait(0.2):
                return
            if self._space.create(documents.trainjob(f"job-{number}", "short")).ok:
                self.accepted.append(f"job-{number}")

    def __enter__(self) -> list[str]:
        self.start()
        return self.accepted

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


@pytest.fixture(scope="module")
def restarted(kubectl: Kubectl, installation: Installation) -> Iterator[Restarted]:
    """The API server, restarted while jobs were made; all of the cluster follows it again when the tests are over."""
    space = Space(spaces.named("restarted"), kubectl).make()
    space.apply(CHANGED).expect()
    jobs.submit(space, SHORT, documents.trainjob("first", "short"))
    try:
        with Stream(space) as accepted:
            until("some jobs to be accepted", lambda: len(accepted) > 3)
            installation.restart_api_server()
            since = time.monotonic()
            # A controller that could not renew its Lease for 10 s ends, and its webhook with it.
            until("Trainer to take runtimes", lambda: space.apply(NEW, CHANGED_TO).ok, SETTLED)
            count = len(accepted)
            until("some more to be accepted", lambda: len(accepted) > count + 3, SETTLED)
        yield Restarted(space, ["first", *accepted], since)
    finally:
        _settle(space)
        space.remove()


def test_jobs_of_new_and_of_changed_runtimes_are_answered_right(restarted: Restarted, say: outages.Say) -> None:
    space = restarted.space
    for name in ("changed", "new"):
        answer = until("Trainer to know the runtime", partial(_answered, space, f"of-{name}-0", name), SETTLED)
        assert answer == "stored", answer
    say(f"stored {time.monotonic() - restarted.since:.0f} s after the API server's return")

    new = space.trainjob("of-new-0")
    assert new is not None
    assert jobs.applied(new)["strategy"] == "trl"
    # After a fetch that a busy API server did not answer in time, Muster answers from its caches for a moment.
    name = until("Muster to use the changed runtime", partial(_of_now, space, itertools.count()), SETTLED)
    jobset = space.wait_jobset(name, SETTLED)
    assert jobs.env(jobset)["MUSTER_EXPECTED_WORLD_SIZE"] == jobs.env(jobset)["PET_NNODES"]
    if name != "of-changed-0":
        say(f"{name} is the first job that was answered by the changed runtime")


def test_every_watch_of_muster_goes_on(restarted: Restarted, kubectl: Kubectl) -> None:
    kinds = {each["kind"] for name, each, _ in metrics.scraped(kubectl) if name == "muster_cluster_cache_age_seconds"}
    assert len(kinds) >= 6

    def has_heard(kind: str, since: float) -> bool:
        return _age(kubectl, kind) < time.monotonic() - since

    touched = time.monotonic()
    assert _touch(restarted.space)
    until("Muster to hear of a namespace", lambda: has_heard("Namespace", touched))
    until("Muster to hear of all kinds", lambda: all(has_heard(kind, restarted.since) for kind in kinds), 90)


def test_what_was_accepted_is_neither_lost_nor_left_without_muster(restarted: Restarted) -> None:
    space = restarted.space
    until("all to be complete", lambda: all(map(_is_complete, _short(space).values())), SETTLED)

    stored, jobsets = _short(space), {each["metadata"]["name"]: each for each in space.all(JOBSETS)}
    assert set(restarted.accepted) <= stored.keys(), "a job that was accepted is lost"
    assert [name for name, each in stored.items() if not jobs.applied(each)] == []
    assert [name for name in stored if not jobs.is_added_to(jobsets[name])] == []


def _short(space: Space) -> dict[str, dict[str, Any]]:
    """Return the TrainJobs of the stream."""
    found = {each["metadata"]["name"]: each for each in space.all(TRAINJOBS)}
    return {name: each for name, each in found.items() if each["spec"]["runtimeRef"]["name"] == "short"}


def _settle(space: Space) -> None:
    """Wait until Trainer knows of new runtimes, and of the snapshots that it made itself."""
    until("Trainer to follow the API server again", partial(_is_settled, space, itertools.count()), SETTLED)


def _is_settled(space: Space, numbers: Iterator[int]) -> bool:
    """Make a job, replace its runtime, and have its JobSet made again: it must be the same as before."""
    name = f"probe-{next(numbers)}"
    space.apply(documents.training_runtime(name, nodes=1)).expect()
    if _answered(space, name, name) != "stored":
        return False
    space.wait_jobset(name)
    space.apply(documents.training_runtime(name, nodes=2)).expect()
    space.delete(JOBSETS, name, wait=True).expect()
    return jobs.env(space.wait_jobset(name))["PET_NNODES"] == "1"


def _answered(space: Space, name: str, runtime: str) -> str:
    """Return how a job was answered, "" while Trainer does not know the runtime or is too busy to read it."""
    answer = space.apply(documents.trainjob(name, runtime))
    early = any(words in answer.err for words in _EARLY)
    return "" if early else "stored" if answer.ok else answer.err


def _of_now(space: Space, numbers: Iterator[int]) -> str:
    """Make the next job of runtime `changed`, and return its name if it was answered by what that runtime is now."""
    name = f"of-changed-{next(numbers)}"
    if _answered(space, name, "changed") != "stored":
        return ""
    stored = space.trainjob(name)
    return name if stored is not None and jobs.applied(stored)["strategy"] == "trl" else ""


def _age(kubectl: Kubectl, kind: str) -> float:
    return metrics.total(metrics.scraped(kubectl), "muster_cluster_cache_age_seconds", kind=kind)


def _touch(space: Space) -> bool:
    patch = {"metadata": {"labels": {"touched": str(time.monotonic())}}}
    return space.kubectl.patch("namespace", space.name, None, patch).ok


def _is_complete(trainjob: dict[str, Any]) -> bool:
    return conditions(trainjob).get("Complete") == "True"
