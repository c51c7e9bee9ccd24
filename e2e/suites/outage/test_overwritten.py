"""Jobs in which Muster overwrote a field, while Muster is dead.

On an UPDATE Muster gives back what it overwrote at CREATE. Without it the API refuses whoever sends the old value:

* A JobSet of a TrainJob that nobody corrected (it came before Muster, or its namespace was in mode `off`), of which
  the `trl` launch was replaced: Trainer sends the old command with each suspend and resume. This is the only case in
  which a controller is blocked, and it recovers without help after Muster's return.
* A TrainJob whose `command`, `args` or `numProcPerNode` was replaced (`trl`, `accelerate`, `tune run`, a process
  count): a server-side re-apply of its file is refused. Suspend, resume and Trainer do not send these fields.
* A JobSet that Trainer did not make, of which a `trl` launch or a `vllm serve` was replaced: likewise.

Each of them can be deleted at any time.
"""

from __future__ import annotations

import time
from functools import partial

import pytest

from e2e.suites.outage import jobs, outages
from e2e.suites.support import documents, thorough
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

TRL = documents.training_runtime("rt", "trl", nodes=2, command=["trl", "sft"], args=jobs.TRL_ARGS)
LAUNCH = ["torchrun", "-m", "trl.scripts.sft"]
EARLY = documents.trainjob("job", "rt", trainer={})
OUTAGE = 10.0  # seconds
HEALED = (
    60.0  # Trainer tries again at doubling distances: after as long as the outage was, or twice, or four times that
)


def corrected_late(space: Space, *names: str) -> None:
    """Make the jobs that Trainer's applies fight over: TrainJobs as they were sent, JobSets that were corrected."""
    space.mode("off")
    for name in names:
        jobs.submit(space, TRL, {**EARLY, "metadata": {"name": name}})
        assert jobs.command(space.wait_jobset(name))[:2] == ["trl", "sft"], "mode off did not hold"
        jobs.wait_ready(space, name)
    space.mode(None)
    space.delete(JOBSETS, "--all", wait=True).expect()
    for name in names:
        assert jobs.command(space.wait_jobset(name))[:3] == LAUNCH
        jobs.wait_running(space, name, pods=2)


@pytest.mark.thorough
def test_what_is_asked_for_in_an_outage_happens_by_itself_after_it(
    space: Space, muster: Installation, say: outages.Say
) -> None:
    corrected_late(space, "ends", "goes-on", "touched")
    jobs.suspend(space, "goes-on")
    jobs.wait_suspended(space, "goes-on")
    outages.die(muster)
    started = time.monotonic()
    jobs.suspend(space, "ends")
    jobs.suspend(space, "touched")
    jobs.resume(space, "goes-on")
    for name in ("ends", "goes-on", "touched"):
        until(f"Trainer to be refused {name}", partial(jobs.refusals, space, name))
    until("the outage to have its length", lambda: time.monotonic() - started > OUTAGE, OUTAGE + 1)
    states = {name: jobs.is_suspended(space, name) for name in ("ends", "goes-on", "touched")}
    assert states == {"ends": False, "goes-on": True, "touched": False}, "then nothing was overwritten"

    muster.start()
    started = time.monotonic()

    space.patch(TRAINJOBS, "touched", {"metadata": {"annotations": {"touched": "yes"}}}).expect()
    until("the one touched to be suspended", lambda: jobs.is_suspended(space, "touched"), 15)
    touched = time.monotonic() - started
    until("the other to be suspended", lambda: jobs.is_suspended(space, "ends"), HEALED)
    ended = time.monotonic() - started
    until("the third to be resumed", lambda: not jobs.is_suspended(space, "goes-on"), HEALED)
    say(
        f"after an outage of {OUTAGE:g} s: suspended after {ended:.1f} s, resumed after"
        f" {time.monotonic() - started:.1f} s, one that was touched after {touched:.1f} s"
    )
    jobs.wait_suspended(space, "ends")
    jobs.wait_running(space, "goes-on", pods=2)
    assert all(jobs.command(each)[:3] == LAUNCH for each in space.all(JOBSETS))


@pytest.mark.thorough
def test_a_job_is_deleted_in_an_outage_even_while_trainer_is_refused(space: Space, muster: Installation) -> None:
    corrected_late(space, "job")
    outages.die(muster)
    jobs.suspend(space, "job")
    until("Trainer to be refused", lambda: jobs.refusals(space, "job"))

    space.delete(TRAINJOBS, "job").expect()

    space.wait_gone(TRAINJOBS, "job")
    space.wait_gone(JOBSETS, "job")
    until("the pods to be gone", lambda: space.pods() == [])


WRITTEN = documents.trainjob("job", "rt", trainer={"command": ["trl", "sft"], "args": jobs.TRL_ARGS})
OWN = documents.jobset("own", "trl", nodes=2, command=["trl", "sft"], args=jobs.TRL_ARGS)
SERVED = documents.jobset("own", "vllm", command=["vllm", "serve", "model"], args=["--seed", "1"])
FILES = {"TrainJob": (TRAINJOBS, WRITTEN), "JobSet-trl": (JOBSETS, OWN), "JobSet-vllm": (JOBSETS, SERVED)}


@pytest.mark.parametrize("name", thorough.but("TrainJob", of=FILES))
def test_a_file_whose_command_was_replaced_is_refused_in_an_outage_and_passes_after_it(
    space: Space, muster: Installation, name: str
) -> None:
    kind, document = FILES[name]
    space.apply(TRL).expect()
    until("the job to be stored", lambda: space.apply(document, server_side=True).ok, 10)
    stored = space.get(kind, document["metadata"]["name"])
    outages.die(muster)

    answer = space.apply(document, server_side=True)

    assert answer.refused_with("immutable"), answer
    muster.start()
    space.apply(document, server_side=True).expect()
    after = space.get(kind, document["metadata"]["name"])
    assert stored is not None
    assert after is not None
    assert after["spec"] == stored["spec"]


@pytest.mark.parametrize("name", thorough.but("TrainJob", of=FILES))
def test_a_job_whose_command_was_replaced_is_suspended_resumed_and_deleted_in_an_outage(
    space: Space, muster: Installation, name: str
) -> None:
    kind, document = FILES[name]
    job, pods = document["metadata"]["name"], 1 if name == "JobSet-vllm" else 2
    space.apply(TRL).expect()
    until("the job to be stored", lambda: space.apply(document, server_side=True).ok, 10)
    jobs.wait_running(space, job, pods=pods)
    outages.die(muster)

    jobs.suspend(space, job, kind=kind)
    jobs.wait_suspended(space, job)
    jobs.resume(space, job, kind=kind)
    jobs.wait_running(space, job, pods=pods)

    space.delete(kind, job).expect()
    space.wait_gone(kind, job)
    space.wait_gone(JOBSETS, job)
