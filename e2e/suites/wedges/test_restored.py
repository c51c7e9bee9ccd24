"""Every kind of mutation, made by a strategy of Muster's: the job lives, because Muster restores what it overwrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.suites.lifecycle import lives, scenes
from e2e.suites.support import thorough, waits
from e2e.suites.upgrade import plugins
from e2e.suites.wedges import rows
from e2e.suites.wedges.muster_wedges import mutations

pytestmark = pytest.mark.xdist_group("installation")

BY_THE_RUNTIME = ("add claims", "replace the command", "everything at once")
JOBS = {row: (row, False) for row in mutations.ROWS}
JOBS |= {f"{row}, launched by the runtime": (row, True) for row in BY_THE_RUNTIME}


@pytest.fixture(scope="module", autouse=True)
def plugin(installation, tmp_path_factory):
    package = Path(__file__).with_name("muster_wedges")
    folder = plugins.installed(
        tmp_path_factory.mktemp("plugin") / "site", package, "muster_wedges.strategy:WedgeStrategy"
    )
    with installation.plugin(folder):
        yield


@pytest.mark.parametrize("how", thorough.but_named("append an env", "everything at once", of=JOBS))
def test_a_job_lives_whatever_a_strategy_changed(space, installation, how):
    row, by_runtime = how
    rows.submit(space, row, suspend=True, by_runtime=by_runtime)
    life = lives.Life(space, "life", installation, runs=row not in rows.NEVER_RUN)
    scene = life.wait("suspended")
    assert mutations.operations(scene.jobset) == []
    assert bool(life.made["applied"]) is (row != "nothing")
    life.turn()
    life.suspend()
    rows.place(space, suspend=False)
    scene = life.wait("released" if row in rows.NEVER_RUN else "running")
    wanted = rows.PLACED["metadata"]["labels"].items()
    assert all(wanted <= pod["metadata"]["labels"].items() for pod in scene.pods)
    assert mutations.operations(scene.jobset) == []
    life.delete()


@pytest.mark.parametrize("row", thorough.but("replace the command", of=rows.OVERWRITES))
def test_a_running_job_can_be_preempted_whatever_a_strategy_overwrote(space, installation, row):
    rows.submit(space, row, suspend=False)
    life = lives.Life(space, "life", installation, runs=row not in rows.NEVER_RUN)
    life.wait("released")
    life.suspend()
    life.resume()
    life.delete()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("write without a record", ("strategy 'wedges' (muster-wedges 1) failed", "wrote into the job's document")),
        ("change more than can be remembered", ("an update can restore at most 256 of one object",)),
    ],
)
def test_what_muster_could_not_restore_is_never_stored(space, row, words):
    rows.submit(space, row, suspend=True)

    def refused() -> scenes.Scene:
        scene = scenes.look(space, "life")
        assert any(all(word in each for word in words) for each in scene.denials), scene.denials
        return scene

    assert waits.until("a refusal", refused).jobset is None
