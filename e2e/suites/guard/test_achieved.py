"""A job of an image that Muster has never seen, which `explain` calls open, says what it achieved while it runs."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import yaml

from e2e.suites.guard import jobs
from e2e.suites.support import statuses, waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space, conditions
from e2e.suites.training import runs
from muster.webhook.cli import main

_MODELS = Path(__file__).parents[2] / "models"


def test_a_job_that_documents_leave_open_shows_achieved_of_expected_while_it_runs(
    space: Space, kubectl: Kubectl, tmp_path: Path
) -> None:
    runtime, job = jobs.runtime(), jobs.trainjob("hand", "together", "5", "stays")
    assert "open: this is a program of your own" in explained(tmp_path, runtime, job)
    name = runs.start(space, jobs.program(), runtime, job)

    said = jobs.achieved(space, name, world_size="2", expected_world_size="2", nodes="2", gradients="shared")

    assert "verdict" not in said, said
    assert float(said["first-step-seconds"]) > 0
    assert "Complete" not in conditions(space.trainjob(name) or {})
    world = waits.until("muster status to say it", lambda: reached(kubectl, space, name), 30)
    assert world == ("2", 2)
    jobs.end(space, name)
    ranks = runs.ended(space, name)
    assert [rank.report()["worldSize"] for rank in ranks] == [2, 2]
    assert jobs.metrics(space, name)["muster.dev/world-size"] == "2"


def test_the_progress_and_losses_of_transformers_stay_beside_what_the_guard_says(space: Space) -> None:
    job = jobs.trainjob("sft", "8", command=jobs.SFT)
    name = runs.start(space, jobs.program(_MODELS / "make.py"), jobs.runtime(), job)

    ranks = runs.ended(space, name)

    assert [rank.report()["worldSize"] for rank in ranks] == [2, 2]
    said, status = jobs.metrics(space, name), jobs.status(space, name)
    assert status["progressPercentage"] == 100
    assert float(said["train_loss"]) > 0
    assert float(said["loss"]) > 0
    assert (said["muster.dev/world-size"], said["muster.dev/expected-world-size"]) == ("2", "2")
    assert said["muster.dev/gradients"] == "shared"


def reached(kubectl: Kubectl, space: Space, name: str) -> tuple[str, int]:
    """Return the ranks that were asked for, and those that met, by `muster status`."""
    world = statuses.told(kubectl, name, "-n", space.name)["world"]
    return world["asked"], world["reached"]


def explained(folder: Path, *documents: dict[str, object]) -> str:
    """Return what `muster explain` says of documents."""
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
        main.main(["explain", str(file)])
        out.seek(0)
        return " ".join(out.read().split())
