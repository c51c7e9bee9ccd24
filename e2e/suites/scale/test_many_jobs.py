"""Many TrainJobs in one `kubectl apply`, on two hundred fake nodes: each ends as if it were alone."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.suites.scale import runs
from e2e.suites.scale.runs import Run
from e2e.suites.support import documents, metrics, spaces, thorough
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space, conditions
from e2e.suites.support.waits import until

QUICK, JOBS = 50, 500  # in `make test`, and at most
MIB = 1024 * 1024
LIMIT = 150 * MIB
DURATION = "muster_admission_duration_seconds"
UNKNOWN = "other"  # a runtime of a framework that Muster has no strategy for, and therefore adds nothing to

TRL_ARGS = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "/out", "--use_cpu", "--bf16", "false"]
TUNE = ["tune", "run", "full_finetune_distributed", "--config", "qwen2_5/1.5B_full", "output_dir=/out"]
RUNTIMES = [
    documents.training_runtime("torch", "torch", command=["torchrun", "train.py"], ends=True),
    documents.training_runtime("plain", "torch", command=["python", "train.py"], ends=True),
    documents.training_runtime("trl", "trl", ends=True),
    documents.training_runtime("tune", "torchtune", command=TUNE, ends=True),
    documents.training_runtime(UNKNOWN, "deepspeed", command=["deepspeed", "train.py"], ends=True),
]
TRAINERS: list[tuple[str, dict[str, Any] | None]] = [
    ("torch", None),
    ("torch", {"numNodes": 2}),
    ("plain", {"numNodes": 3}),
    ("trl", {"command": ["trl", "sft"], "args": TRL_ARGS, "numNodes": 2}),
    ("trl", {"command": ["trl", "sft"], "args": TRL_ARGS}),
    ("tune", None),
    (UNKNOWN, {"numNodes": 4}),
    ("torch", {}),
    ("plain", {}),
    ("tune", {}),
]


def job(number: int) -> dict[str, Any]:
    """Return one of the many."""
    runtime, trainer = TRAINERS[number % len(TRAINERS)]
    return documents.trainjob(f"job-{number:03}", runtime, trainer=trainer)


@pytest.fixture(scope="module", params=thorough.but(QUICK, of=[QUICK, JOBS]))
def done(nodes: int, kubectl: Kubectl, installation: Installation, request: pytest.FixtureRequest) -> Iterator[Run]:
    """The run of so many jobs, made once; `nodes` are there for it."""
    assert nodes
    space = Space(spaces.named("scale"), kubectl).make()
    try:
        space.apply(*RUNTIMES).expect()
        names = [each["metadata"]["name"] for each in RUNTIMES]
        until("Trainer to know the runtimes", lambda: all(_is_known(space, name) for name in names))
        yield runs.run(space, installation, [job(number) for number in range(request.param)])
    finally:
        space.remove()


def test_every_job_is_accepted_and_comes_to_its_end(done: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{_figures(done)}\n")

    assert done.applied.ok, done.applied.err[:4000]
    assert len(done.trainjobs) == done.asked
    unfinished = {name: conditions(each) for name, each in done.trainjobs.items() if not _is_complete(each)}
    assert unfinished == {}


def test_every_jobset_has_what_muster_adds(done: Run) -> None:
    assert done.jobsets.keys() == done.trainjobs.keys()
    without = [name for name, each in done.jobsets.items() if not _is_added_to(each) and not _is_unknown(done, name)]
    assert without == []
    assert [name for name, each in done.jobsets.items() if _is_added_to(each) and _is_unknown(done, name)] == []


def test_every_job_has_the_world_size_that_it_asked_for(done: Run) -> None:
    for number in range(done.asked):
        runtime, trainer = TRAINERS[number % len(TRAINERS)]
        if runtime != UNKNOWN:
            env = _env(done.jobsets[f"job-{number:03}"])
            assert env["MUSTER_EXPECTED_WORLD_SIZE"] == str((trainer or {}).get("numNodes", 1))


def test_nothing_is_denied_and_nothing_fails(done: Run) -> None:
    assert done.grown("muster_plugin_failures_total") == 0
    assert done.grown("muster_audit_problems_total") == 0
    wanted = {"patched", "unchanged", "allowed"}
    others = [each for each in done.records if each["decision"] not in wanted and not _is_late(done, str(each))]
    assert others == []
    late = done.grown("muster_refused_requests_total", reason="timeout")
    assert done.grown("muster_refused_requests_total") == (late if done.lost else 0)
    assert done.lost or done.grown("muster_cluster_fetches_total", outcome="failed") == 0


def test_trainer_is_never_refused_an_object(done: Run) -> None:
    refused = [each["message"] for each in done.events if each.get("reason") == "TrainJobResourcesCreationFailed"]
    assert [each for each in refused if not _is_late(done, each)] == []


def test_the_audit_log_has_both_records_of_each_object(done: Run) -> None:
    seen = Counter(
        (each["object"]["kind"], each["object"]["name"], each["phase"])
        for each in done.records
        if each["operation"] == "CREATE" and not each["dryRun"]
    )
    wanted = {
        (kind, f"job-{number:03}", phase)
        for kind in ("TrainJob", "JobSet")
        for number in range(done.asked)
        for phase in ("mutate", "validate")
    }
    assert wanted - seen.keys() == set()


def test_muster_stays_within_its_memory(done: Run) -> None:
    assert done.memory.peak < LIMIT, f"{done.memory.peak / MIB:.0f} MiB"


def _is_late(done: Run, told: str) -> bool:
    """Whether the machine stood still during the run, and this tells of a request that ran out of its time."""
    late = ("deadline exceeded", "could not be fetched within", "no answer within")
    return done.lost > 0 and any(words in told for words in late)


def _figures(done: Run) -> str:
    """Say what it cost."""
    before, peak, after = (size / MIB for size in (done.memory.before, done.memory.peak, done.memory.after))
    lines = [
        f"  {done.asked} TrainJobs: applied in {done.apply_seconds:.0f} s, ended after {done.seconds:.0f} s",
        f"  Muster's memory: {before:.0f} MiB before, {peak:.0f} at most, {after:.0f} after",
        f"  the machine stood still for {done.lost:.1f} s of it",
        f"  GETs after a cache miss: {done.grown('muster_cluster_fetches_total'):.0f}",
    ]
    for resource in ("trainjobs", "jobsets"):
        for phase in ("mutate", "validate"):
            labels = {"resource": resource, "phase": phase}
            count = done.grown(f"{DURATION}_count", **labels)
            mean = done.grown(f"{DURATION}_sum", **labels) / max(count, 1) * 1000
            p50, p99 = (metrics.percentile(done.before, done.after, share, DURATION, **labels) for share in (0.5, 0.99))
            lines.append(
                f"  {phase} {resource}: {count:.0f} decisions, {mean:.2f} ms on average, p50 below {p50 * 1000:g} ms,"
                f" p99 below {p99 * 1000:g} ms"
            )
    return "\n".join(lines)


def _is_known(space: Space, runtime: str) -> bool:
    return space.apply(documents.trainjob("known", runtime), dry_run=True).ok


def _is_complete(trainjob: dict[str, Any]) -> bool:
    return conditions(trainjob).get("Complete") == "True"


def _is_unknown(done: Run, name: str) -> bool:
    runtime: str = done.trainjobs[name]["spec"]["runtimeRef"]["name"]
    return runtime == UNKNOWN


def _env(jobset: dict[str, Any]) -> dict[str, str]:
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return {each["name"]: each.get("value", "") for each in pod["containers"][0].get("env") or ()}


def _is_added_to(jobset: dict[str, Any]) -> bool:
    memory = json.loads((jobset["metadata"].get("annotations") or {}).get("muster.dev/applied", "{}"))
    return bool(memory) and {"MASTER_ADDR", "MASTER_PORT"} <= _env(jobset).keys()
