"""What a decision leaves behind: annotations on the job, and an audit record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.suites.pods import trainings
from e2e.suites.support import thorough, waits
from e2e.suites.support.documents import trainjob
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import Space

_ARGS = ["--model_name_or_path", "m", "--dataset_name", "d", "--use_cpu"]
_TRAINER = {"numNodes": 2, "command": ["trl", "sft"], "args": _ARGS}
_RUNTIME = trainings.runtime("trl", "trl", command=["torchrun", "-m", "trl.scripts.sft"])


def test_a_generated_name_is_the_one_under_which_the_ranks_meet(space: Space) -> None:
    space.apply(_RUNTIME).expect()
    job = trainjob("tune-", "trl", trainer=_TRAINER, generate=True)
    trainings.known(space, job).expect()
    created = space.create(job, options=("-o", "json")).expect()
    name = created.json["metadata"]["name"]
    pods = trainings.ended(space, name)
    assert name.startswith("tune-")
    assert [pod.command[0] for pod in pods] == ["torchrun", "torchrun"]
    assert [pod.host for pod in pods] == [f"{name}-node-0-0", f"{name}-node-0-1"]
    trainings.assert_met(pods, f"{name}-node-0-0.{name}")


@pytest.mark.thorough
def test_the_job_remembers_what_was_changed(space: Space) -> None:
    trainings.run(space, _RUNTIME, trainjob("kept", "trl", trainer=_TRAINER))
    job = space.trainjob("kept") or {}
    applied = json.loads(job["metadata"]["annotations"]["muster.dev/applied"])
    assert applied["strategy"] == "trl"
    assert set(applied["fields"]) == {"spec.trainer.command"}


@pytest.mark.parametrize("kind", thorough.but("JobSet", of=["TrainJob", "JobSet"]))
def test_each_decision_leaves_one_record_that_explains_it(space: Space, installation: Installation, kind: str) -> None:
    pods = trainings.run(space, _RUNTIME, trainjob("told", "trl", trainer=_TRAINER))
    record = _patched(space, installation, kind)
    changes = {change["field"]: change for change in record["changes"]}
    assert record["framework"] == "trl"
    assert record["runtime"]["name"] == "trl"
    assert all(change["rule"] and change["reason"] for change in changes.values())
    if kind == "TrainJob":
        command = changes["spec.trainer.command"]
        assert command["before"] == ["trl", "sft"]
        assert command["after"] == pods[0].command[:3]
    else:
        assert record["owner"]["name"] == "told"
        added = {change["after"]["name"]: change["after"] for change in changes.values() if "env" in change["field"]}
        assert added["MASTER_ADDR"]["value"] == pods[1].env["MASTER_ADDR"]


def _patched(space: Space, installation: Installation, kind: str) -> dict[str, Any]:
    """The record of the one mutation of an object of this kind."""

    def look() -> list[dict[str, Any]]:
        records = installation.audit(space.name)
        return [each for each in records if each["object"]["kind"] == kind and each["decision"] == "patched"]

    found = waits.until(f"the record of a patched {kind}", look)
    created = [each for each in found if each["operation"] == "CREATE" and not each["dryRun"]]
    assert len(created) == 1, f"{len(created)} records of one decision"
    return created[0]
