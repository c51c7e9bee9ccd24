"""The version of a strategy changes: jobs keep the answer of their creation, new ones get the new answer."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from e2e.suites.lifecycle import lives
from e2e.suites.support import documents, thorough
from e2e.suites.upgrade import plugins

pytestmark = pytest.mark.xdist_group("installation")

TAKEOVERS = {
    "an upgrade": ("1", "2"),
    "a downgrade": ("2", "1"),
    "the strategy is uninstalled": ("1", None),
    "the strategy is installed": (None, "1"),
}
SENT = {"command": ["train.py"], "numProcPerNode": 1}
RUNTIME = documents.training_runtime("answers", "answers", nodes=2)


@pytest.fixture
def muster(installation, tmp_path):
    """Muster with a version of the strategy, or without it."""

    def running(version):
        if version is None:
            return contextlib.nullcontext()
        package = Path(__file__).with_name("muster_answers")
        folder = tmp_path / f"{version}-{len(list(tmp_path.iterdir()))}"
        return installation.plugin(
            plugins.installed(folder, package, "muster_answers.strategy:AnswerStrategy", version)
        )

    return running


def job(name, **how):
    return documents.trainjob(name, "answers", trainer=SENT, **how)


def apply_server_side(space, document):
    return space.apply(document, server_side=True)


def begin(space, installation, name, state):
    lives.submit(space, RUNTIME, job(name, suspend=state == "suspended"), apply_server_side)
    life = lives.Life(space, name, installation)
    life.wait(state)
    if state == "suspended":
        life.settle()
    return life


def has_answer_of(version, life):
    """Whether a job has all of a version's answer, on TrainJob and JobSet, and nothing of another's."""
    container = life.made["jobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    env = {each["name"]: each.get("value") for each in container["env"]}
    seen = {
        "command": life.trainer["command"],
        "launch": container["command"],
        "processes": env["PET_NPROC_PER_NODE"],
        "answers": sorted(name for name in env if name.startswith("ANSWER_")),
        "folder": container.get("workingDir"),
        "version": json.loads(life.made["applied"])["version"] if life.made["applied"] else None,
    }
    launch = ["train.py"] if version is None else [f"launch-{version}", "train.py"]
    return seen == {
        "command": launch,
        "launch": launch,
        "processes": "1" if version is None else f"{int(version) + 1}",
        "answers": [] if version is None else [f"ANSWER_{version}"],
        "folder": None if version is None else f"/{version}",
        "version": version,
    }


def send_again(space, name, **how):
    """Send a job's file once more in every way."""
    space.apply(job(name, **how), server_side=True).expect()
    space.apply(job(name, **how), server_side=True, options=("--force-conflicts",)).expect()
    space.apply(job(name, **how)).expect()


@pytest.mark.parametrize("versions", thorough.but_named("an upgrade", of=TAKEOVERS))
def test_jobs_of_before_keep_their_answer_and_new_ones_get_the_new_answer(space, installation, muster, versions):
    old, new = versions
    with muster(old):
        runs, waits = begin(space, installation, "runs", "running"), begin(space, installation, "waits", "suspended")
        gone = begin(space, installation, "gone", "suspended")
        assert all(has_answer_of(old, life) for life in (runs, waits, gone))
    with muster(new):
        runs.suspend()
        runs.poke()
        runs.resume()
        waits.turn()
        send_again(space, "runs", suspend=False)
        send_again(space, "waits", suspend=False)
        assert has_answer_of(new, begin(space, installation, "new", "running"))
        assert all(has_answer_of(old, life) for life in (runs, waits))
        for life in (runs, waits, gone):
            life.check()
            life.delete()
