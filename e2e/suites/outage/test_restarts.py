"""Muster ends and starts again while jobs are created: no job gets past it, and its log stays complete."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from e2e.cluster.places import REPOSITORY
from e2e.suites.outage import jobs, outages
from e2e.suites.support import documents
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.thorough

COUNT, RATE = 60, 5.0  # TrainJobs, and how many in a second
PATIENCE = 240.0  # an outage is over in 25 s, on a machine with nothing else to do


_AWAY = ("failed calling webhook", "could not be read")  # the second in its first moment, before its caches are full


class Stream:
    """People who create one TrainJob after another, and try again when they are refused.

    Args:
        space: the namespace.

    Attributes:
        refused: how often jobs were refused.
        others: refusals for other reasons than Muster's absence.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._lock = threading.Lock()
        self.refused = 0
        self.others: list[str] = []

    def run(self) -> None:
        """Create all of them, at the rate."""
        started = time.monotonic()
        with ThreadPoolExecutor(4) as people:
            for number in range(COUNT):
                time.sleep(max(0.0, started + number / RATE - time.monotonic()))
                people.submit(self._create, f"job-{number}")

    def _create(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            answer = self._space.create(documents.trainjob(name, "rt"))
            if answer.ok or "AlreadyExists" in answer.err:
                return
            with self._lock:
                self.refused += 1
                if '.muster.dev"' not in answer.err or not any(words in answer.err for words in _AWAY):
                    self.others.append(str(answer))
            time.sleep(0.3)


def ends(muster: Installation) -> None:
    """End Muster in order."""
    muster.stop()


@pytest.mark.parametrize("end", [ends, outages.die], ids=["in order", "by SIGKILL"])
def test_every_job_of_a_stream_is_accepted_and_none_without_muster(
    space: Space, muster: Installation, say: outages.Say, end: Callable[[Installation], None]
) -> None:
    jobs.submit(space, documents.training_runtime("rt", ends=True), documents.trainjob("first", "rt"))
    stream = Stream(space)
    people = threading.Thread(target=stream.run)
    people.start()
    try:
        for wanted in (10, 30):
            until(f"{wanted} jobs to be there", partial(_has, space, wanted), PATIENCE)
            end(muster)
            muster.start()
    finally:
        people.join()

    stored = space.all(TRAINJOBS)
    assert stream.others == []
    assert len(stored) == COUNT + 1
    assert [each["metadata"]["name"] for each in stored if not jobs.applied(each)] == []
    until("all JobSets to be made", lambda: len(space.all(JOBSETS)) == COUNT + 1, 120)
    assert [each["metadata"]["name"] for each in space.all(JOBSETS) if not jobs.is_added_to(each)] == []
    if end is ends:
        names = {each["metadata"]["name"] for each in stored}
        until("all to be recorded", lambda: names <= _names(muster, space))
    say(f"{COUNT} jobs in {COUNT / RATE:g} s over two restarts; refused and tried again {stream.refused} times")


@pytest.fixture
def log() -> Path:
    """Muster's audit log, where it is a file of this machine."""
    path = Path(os.environ.get("MUSTER_E2E_STATE", "")) / "logs" / "audit.log"
    if os.environ.get("MUSTER_E2E_TIER") != "control-plane" or not path.exists():
        pytest.skip("Muster's audit log is not a file on this machine")
    return path


def verified(log: Path) -> tuple[int, str]:
    """Run `muster audit verify`; return its exit code and what it found."""
    command = [sys.executable, "-m", "muster", "audit", "verify", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY)
    return done.returncode, done.stdout + done.stderr


def busy(space: Space, muster: Installation) -> None:
    """Kill Muster in the middle of many decisions."""
    documents_ = [documents.trainjob(f"job-{number}", "rt") for number in range(40)]
    people = threading.Thread(target=lambda: space.create(*documents_))
    people.start()
    until("some jobs to be there", lambda: len(space.all(TRAINJOBS)) > 5)
    outages.die(muster)
    people.join()


def test_the_chain_of_the_audit_log_holds_over_a_kill_in_the_middle_of_decisions(
    space: Space, muster: Installation, log: Path
) -> None:
    jobs.submit(space, documents.training_runtime("rt"), documents.trainjob("first", "rt"))
    before = verified(log)
    busy(space, muster)
    muster.start()
    jobs.submit(space, documents.training_runtime("rt"), documents.trainjob("last", "rt"))
    until(
        "the last job to be recorded", lambda: "last" in {each["object"]["name"] for each in muster.audit(space.name)}
    )

    code, found = verified(log)

    assert code == before[0] == 0, f"{before[1]}\n{found}"


def test_a_line_that_a_crash_has_torn_is_reported_and_the_log_goes_on_after_it(
    space: Space, muster: Installation, log: Path
) -> None:
    jobs.submit(space, documents.training_runtime("rt"), documents.trainjob("first", "rt"))
    until("the job to be recorded", lambda: muster.audit(space.name))
    muster.kill()
    whole = log.read_bytes()
    last = whole.splitlines()[-1]
    log.write_bytes(whole + last[: len(last) // 2])
    try:
        muster.start()
        jobs.submit(space, documents.training_runtime("rt"), documents.trainjob("last", "rt"))
        until("the last job to be recorded", lambda: _names(muster, space) >= {"first", "last"})

        code, found = verified(log)

        assert code == 1
        assert found.count("torn") == 1, found
        assert "1 problem found" in found, found
    finally:
        muster.stop()
        log.write_bytes(log.read_bytes().replace(last[: len(last) // 2] + b"\n", b"", 1))
        muster.start()
    assert verified(log)[0] == 0


def _has(space: Space, jobs_: int) -> bool:
    return len(space.all(TRAINJOBS)) >= jobs_


def _names(muster: Installation, space: Space) -> set[str]:
    return {each["object"]["name"] for each in muster.audit(space.name)}
