"""The same mutations made without Muster: the problems that it prevents are real on this cluster.

An impostor in Muster's place makes them at CREATE, as a common mutating webhook would, and restores nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.suites.lifecycle import lives, scenes
from e2e.suites.support import thorough, waits
from e2e.suites.support.spaces import TRAINJOBS
from e2e.suites.wedges import rows

pytestmark = pytest.mark.xdist_group("installation")


@pytest.fixture(scope="module", autouse=True)
def impostor(installation):
    with installation.impostor(Path(__file__).with_name("muster_wedges") / "mutations.py"):
        yield


def asked(space, *, suspend):
    """Ask for a state, and return the scene once Trainer has looked at that: its status comes after its apply."""
    space.patch(TRAINJOBS, "life", {"spec": {"suspend": suspend}}).expect()

    def told():
        scene = scenes.look(space, "life")
        return scene if scene.conditions().get("Suspended") == str(suspend) and scene.denials else None

    return waits.until("Trainer to be refused", told)


@pytest.mark.parametrize("row", thorough.but("append an env", of=rows.ADDITIONS))
def test_an_addition_lasts_by_itself(space, row):
    rows.submit(space, row, suspend=True)
    life = lives.Life(space, "life", runs=row not in rows.NEVER_RUN)
    life.turn()
    life.delete()


@pytest.mark.parametrize("row", thorough.but("replace the command", of=rows.OVERWRITES))
def test_an_overwrite_at_create_alone_keeps_a_waiting_job_from_ever_running(space, row):
    rows.submit(space, row, suspend=True)
    life = lives.Life(space, "life")
    scene = asked(space, suspend=False)
    assert any("spec.replicatedJobs: Invalid value" in each for each in scene.denials)
    assert scene.jobset["spec"]["suspend"] is True
    assert lives.frozen(scene.jobset) == life.made
    assert scene.pods == []
    life.delete()


@pytest.mark.parametrize("row", thorough.but("replace the command", of=rows.OVERWRITES))
def test_an_overwrite_at_create_alone_keeps_a_running_job_from_ever_being_preempted(space, row):
    rows.submit(space, row, suspend=False)
    life = lives.Life(space, "life")
    scenes.wait(space, "life", "released")
    scene = asked(space, suspend=True)
    assert scene.jobset["spec"]["suspend"] is False
    assert len(scene.pods) == 2
    life.delete()


@pytest.mark.parametrize("row", thorough.but("replace the command", of=rows.OVERWRITES))
def test_the_same_overwrite_at_every_update_lasts(space, row):
    rows.submit(space, row, suspend=True, always=True)
    life = lives.Life(space, "life", runs=row not in rows.NEVER_RUN)
    life.turn()
    life.delete()
