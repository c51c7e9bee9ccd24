"""Planted faults of the contract tests' table, in pods: each is told, and its right twin is not disturbed."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from e2e.cluster.places import REPOSITORY
from e2e.suites.guard import jobs
from e2e.suites.support import documents, guards, waits
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import Space
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

_TABLE = REPOSITORY / "tests" / "contract" / "guard"
_PROGRAMS = _TABLE / "programs" / "faults"
_SCRIPT = "/program/start.sh"
_ROWS: Mapping[str, dict[str, Any]] = {
    each["name"]: each for each in tomllib.loads((_TABLE / "faults.toml").read_text())["faults"]
}
_CHOSEN = (
    "no_sync around every backward pass",
    "a copy is wrapped and the original is trained",
    "each rank begins with a seed of its own, without DDP",
    "RANK and WORLD_SIZE are overwritten in the program",
    "ranks forked in the program meet in their node only",
    "a script starts torchrun --standalone on each node",
    "CUDA_VISIBLE_DEVICES is 0 for each rank",
    "a script starts fewer ranks than there are devices",
)


@pytest.mark.parametrize("name", _CHOSEN)
def test_a_fault_is_told_in_report_and_its_twin_is_not_disturbed_in_enforce(space: Space, name: str) -> None:
    row = _ROWS[name]
    nodes, gpus = row.get("nodes", 2), row.get("gpus", 0)
    # The pods get no devices: those of the programs are fakes, and so is their number.
    env = {
        "FAKE_GPUS": str(gpus),
        "MUSTER_EXPECTED_DEVICES": str(gpus),
        "SHARED": f"{runs.SHARED}/out",
        "FREE_PORT": "0",
    }
    space.apply(jobs.program(*_PROGRAMS.iterdir())).expect()
    fault = launched("fault", row["fault"], row, "report")
    twin = launched("twin", row["twin"], row, "enforce")
    runs.start(space, jobs.runtime(nodes=nodes, env=env), fault)
    space.apply(twin).expect()

    told, undisturbed = runs.ended(space, "fault"), runs.ended(space, "twin")

    assert {rank.code for rank in told} == {0}
    assert row["told"] in {each.get("verdict") for rank in told for each in reports(rank)}, told
    assert kept(space, "fault")["verdict"] == row["told"]
    assert {rank.code for rank in undisturbed} == {0}
    assert {each.get("verdict") for rank in undisturbed for each in reports(rank)} == {None}, undisturbed
    assert "verdict" not in kept(space, "twin")


def test_a_job_that_documents_call_right_is_measured_where_the_platform_asks_for_all(
    space: Space, installation: Installation
) -> None:
    row = _ROWS[_CHOSEN[0]]
    space.apply(jobs.program(*_PROGRAMS.iterdir())).expect()
    with installation.configure({"guard": {"inject": "always"}}):
        runs.start(space, jobs.runtime(), launched("fault", row["fault"], row, "enforce", by=()))
        ranks = runs.ended(space, "fault", "Failed")

    assert ranks
    assert {rank.code for rank in ranks} == {runs.GUARDED}


def reports(rank: runs.Rank) -> list[dict[str, Any]]:
    """Return what the ranks of a pod reported in its termination message, one a line."""
    return [json.loads(line) for line in rank.message.splitlines() if line.startswith("{")]


def kept(space: Space, name: str) -> dict[str, Any]:
    """Wait until Muster has kept on the JobSet what the guard said of a job that has ended, and return it."""

    def look() -> dict[str, Any]:
        annotations = space.wait_jobset(name)["metadata"].get("annotations") or {}
        found = dict(json.loads(annotations[guards.KEPT]))
        assert found["pod"], f"only its status was read so far: {found}"
        return found

    return waits.until(f"the report of {name} to be kept", look, 60)


def launched(
    name: str, line: str, row: Mapping[str, Any], level: str, by: Sequence[str] = ("sh", _SCRIPT)
) -> dict[str, Any]:
    """Return the TrainJob of a line of the table; `by` a script, which Muster cannot read, any launch is open."""
    words = [word.format(start=_SCRIPT) for word in shlex.split(line)]
    trainer = {"command": words if words[0] == "sh" else [*by, *words]}
    trainer |= {"numProcPerNode": row.get("gpus") or row.get("processes", 1)}
    return documents.trainjob(name, "training", trainer=trainer, labels={"muster.dev/guard": level})
