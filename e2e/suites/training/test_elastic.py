"""A pod is lost during a training: the other pod meets its replacement, and both resume from the checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.suites.support.documents import config_map, trainjob
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

IMAGES = ("trl",)
_PROGRAM = Path(__file__).parent / "programs" / "elastic.py"
_INDEX = "batch.kubernetes.io/job-completion-index"
_STEPS = 30


def test_a_training_goes_on_when_one_of_its_pods_is_killed(space: Space, models: None) -> None:
    runtime = runs.runtime("torch", "trl", retries=3)
    pod = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "program", "configMap": {"name": "program"}})
    pod["containers"][0]["volumeMounts"].append({"name": "program", "mountPath": "/program"})
    command = ["torchrun", "--max-restarts=3", f"/program/{_PROGRAM.name}", f"{runs.SHARED}/out/{space.name}"]
    job = trainjob(
        "elastic",
        "torch",
        trainer={"numNodes": 2, "command": [*command, str(_STEPS)]},
        annotations={"muster.dev/rendezvous": "c10d"},
    )
    name = runs.start(space, config_map("program", {_PROGRAM.name: _PROGRAM.read_text()}), runtime, job)
    (first,) = until("the first pod", lambda: space.pods(f"{_INDEX}=0"), 60)

    def log() -> str:
        return space.kubectl.run("logs", first["metadata"]["name"], "--namespace", space.name).out

    until("the training to be in its middle", lambda: "step 5\n" in log(), 120)
    (second,) = space.pods(f"{_INDEX}=1")

    space.delete("pod", second["metadata"]["name"], grace=0).expect()

    # torchrun's agents meet again in place, or give up and are replaced: torch decides, by whether the dead one's last
    # sign of life is old enough when the next one comes.
    ended = [rank for rank in runs.ended(space, name) if rank.code == 0]
    assert [rank.report()["worldSize"] for rank in ended] == [2, 2]
    begun = [int(step) for rank in ended for step in re.findall(r"of 2 begins after step (\d+)", rank.log)]
    assert max(begun) >= 5, "the ranks did not resume from the checkpoint"
    assert f"step {_STEPS}\n" in "".join(rank.log for rank in ended)
