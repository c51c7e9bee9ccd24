"""Minutes of jobs, certificates that change and a replica that is restarted: no job is lost, and memory does not grow.

Ten minutes of 100 jobs a second, each mutated and validated: 200 admissions a second. `LOAD_SECONDS` and `LOAD_RATE`
change that.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from bench import admissions, figures, pools
from e2e.suites.support.shared import NAMESPACE, Shared, installed

_SECONDS, _RATE = float(os.environ.get("LOAD_SECONDS", "600")), float(os.environ.get("LOAD_RATE", "100"))
_MEBIBYTE = 2**20
_GROWTH = 1.1  # of the memory at two thirds, when the replica that stays has had all of the load, and leads

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough]


@pytest.fixture(scope="module")  # not longer: the next suite finds Muster as it was
def shared(kubectl, installation) -> Iterator[Shared]:
    """Two replicas; an authority gets a successor about two thirds into the load, leaves some ten times."""
    lives = {"settle": 3, "interval": 1, "authorityValidity": int(_SECONDS), "leafValidity": max(int(_SECONDS / 6), 20)}
    with installed(kubectl, installation, lives) as made:
        yield made


def test_minutes_of_load_lose_no_job_while_certificates_change_and_a_replica_is_restarted(kubectl, shared, say):
    server = pools.current(kubectl.binary, "--kubeconfig", kubectl.kubeconfig)
    before, memory, survivor = shared.authorities()[0], dict[str, list[int]](), ""
    with ThreadPoolExecutor(1) as threads:
        load = admissions.measure(server, _RATE, _SECONDS, lambda _window, seconds: say(admissions.line(seconds)))
        running: Future[admissions.Result] = threads.submit(asyncio.run, load)
        begun = time.monotonic()
        while not running.done():
            for pod in shared.pods():
                memory.setdefault(pod, []).append(shared.memory(pod))
            if not survivor and time.monotonic() - begun > _SECONDS / 2:
                leader = shared.wait_leader().partition("_")[0]
                survivor = next(pod for pod in memory if pod != leader)
                kubectl.delete("pod", leader, NAMESPACE, wait=False).expect()
            time.sleep(_SECONDS / 40)
        result = running.result()

    held = [each // _MEBIBYTE for each in memory[survivor]]
    slow = figures.percentile(result.seconds, 0.99)
    say(f"{result.answers['']} of {result.answers.total()} jobs at {_RATE:g} a second: p99 {slow:.3f} s; MiB {held}")
    assert set(result.answers) == {""}, result.answers
    assert before not in shared.authorities()[:1], "the authority got no successor meanwhile"
    assert held[-1] < held[len(held) * 2 // 3] * _GROWTH, held
