"""Caches lag behind the API server; a decision must not follow a runtime that has been replaced.

Trainer freezes the runtime of each job (ConfigMap `<job>-runtime-snapshot`), and the JobSet is made from that. So what
the snapshot shows is the truth about a job: Muster's answer on the JobSet has to be the snapshot's, always. The answer
on the TrainJob comes from the live runtime, which may be replaced between that answer and the snapshot.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
import yaml

from e2e.suites.outage import jobs, outages
from e2e.suites.support import documents
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.thorough

ROUNDS = 20
WORLD = "MUSTER_EXPECTED_WORLD_SIZE"
COMMAND = ["torchrun", "-m", "trl.scripts.sft"]


def version(number: int, *, ends: bool = True) -> dict[str, Any]:
    """Return the runtime as it is in one round: every round has another framework and another size."""
    framework = ("torch", "trl")[number % 2]
    return documents.training_runtime(
        "rt", framework, nodes=1 + number % 3, command=COMMAND, args=jobs.TRL_ARGS, ends=ends
    )


def snapshot(space: Space, name: str) -> dict[str, Any]:
    """Return the runtime that Trainer froze for a job."""
    found = space.get("configmaps", f"{name}-runtime-snapshot")
    assert found is not None
    frozen: dict[str, Any] = yaml.safe_load(found["data"]["runtime"])
    return frozen


def test_a_job_made_right_after_its_runtime_was_replaced_gets_the_answer_of_its_snapshot(
    space: Space, say: outages.Say
) -> None:
    space.apply(version(0)).expect()
    jobs.submit(space, version(0), documents.trainjob("warm", "rt"))
    for number in range(ROUNDS):
        # The next version comes at once, so that JobSets are made while the runtime is already another one.
        space.apply(version(number), documents.trainjob(f"job-{number}", "rt"), version(number + 1)).expect()

    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        name = f"job-{number}"
        jobset = space.wait_jobset(name)
        frozen = snapshot(space, name)
        nodes, framework = (
            frozen["spec"]["mlPolicy"]["numNodes"],
            frozen["metadata"]["labels"][documents.FRAMEWORK_LABEL],
        )
        if jobs.env(jobset)["PET_NNODES"] != str(nodes):
            # Trainer tried again before its cache had its first snapshot, and froze the next runtime over it.
            seen["frozen twice"] += 1
            continue
        assert jobs.env(jobset)[WORLD] == str(nodes), f"{name}: the JobSet has the answer of another runtime"
        assert jobs.applied(jobset)["strategy"] == framework
        trainjob = space.trainjob(name)
        assert trainjob is not None
        assert trainjob["spec"]["trainer"] is not None, "no answer at all"
        seen["live" if jobs.applied(trainjob)["strategy"] == framework else "older"] += 1
        seen["snapshot of this round" if nodes == 1 + number % 3 else "snapshot of an earlier round"] += 1
    assert seen["frozen twice"] <= ROUNDS // 4
    say(f"{ROUNDS} runtimes replaced with a job at once: {dict(seen)}")


def test_a_jobset_that_is_made_again_after_its_runtime_was_replaced_gets_the_answer_of_the_snapshot(
    space: Space,
) -> None:
    # Trainer makes no JobSet again for a job that is complete, as a job that ends can be before its JobSet is deleted.
    jobs.submit(space, version(0, ends=False), documents.trainjob("job", "rt"))
    first = space.wait_jobset("job")
    space.apply(version(1, ends=False)).expect()
    space.delete(JOBSETS, "job", wait=True).expect()

    again = space.wait_jobset("job")

    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert jobs.env(again)[WORLD] == jobs.env(first)[WORLD] == "1"
    assert jobs.applied(again)["strategy"] == "torch"


def test_a_runtime_and_its_job_in_one_apply_are_answered_by_that_runtime(space: Space) -> None:
    """Trainer's own webhook may refuse the job because its cache lags; Muster's may not, and fetches what it lacks."""
    for number in range(5):
        runtime = documents.training_runtime(f"rt-{number}", "trl", nodes=2, command=["trl", "sft"], args=jobs.TRL_ARGS)
        job = documents.trainjob(f"job-{number}", f"rt-{number}")
        answer = space.apply(runtime, job)
        assert ".muster.dev" not in answer.err
        assert "(muster" not in answer.err
        until("the job to be stored", partial(_is_stored, space, job), 10)
        stored = space.trainjob(f"job-{number}")
        assert stored is not None
        assert stored["spec"]["trainer"]["command"] == COMMAND


def test_a_runtime_replaced_while_muster_was_dead_is_known_from_the_first_answer_on(
    space: Space, muster: Installation
) -> None:
    jobs.submit(space, version(0), documents.trainjob("before", "rt"))
    outages.die(muster)
    space.apply(version(1)).expect()

    muster.start()

    space.apply(documents.trainjob("after", "rt")).expect()
    stored = space.trainjob("after")
    assert stored is not None
    assert jobs.applied(stored)["strategy"] == "trl"


def test_a_job_of_the_name_of_one_that_was_deleted_gets_its_own_runtimes_answer(space: Space) -> None:
    for number in range(6):
        jobs.submit(space, version(number), documents.trainjob("again", "rt"))
        jobset = space.wait_jobset("again")
        assert jobs.env(jobset)[WORLD] == str(snapshot(space, "again")["spec"]["mlPolicy"]["numNodes"])
        space.delete(TRAINJOBS, "again", wait=True).expect()
        space.wait_gone(JOBSETS, "again")
        space.wait_gone("configmaps", "again-runtime-snapshot")


def _is_stored(space: Space, job: dict[str, Any]) -> bool:
    return space.apply(job).ok
