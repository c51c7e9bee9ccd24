"""Either role of a GRPO job is killed: the other waits, takes it up again, and no step sees other weights.

The seconds to the next good step are printed; docs/grpo.md has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e.suites.support.spaces import Space
from e2e.suites.training import grpos, runs

pytestmark = pytest.mark.thorough

IMAGES = ("trl", "rl")
Say = Callable[[str], None]
_MIDDLE = 4
_KILL = """
import os, pathlib, signal
for each in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if {words!r} in each.read_bytes() and int(each.parent.name) not in (1, os.getpid()):
        print(each.parent.name, flush=True)
        os.kill(int(each.parent.name), signal.SIGKILL)
"""
_ENGINE = _KILL.format(words=b"EngineCore")
_TRAINER = _KILL.format(words=b"trl")
_PAUSE = """
import os, urllib.request
url = f"http://{os.environ['MUSTER_SAMPLER']}:8000/pause?mode=keep"
print(urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60).status)
"""
_LEFT = "import pathlib; print(sorted(each.name for each in pathlib.Path({folder!r}).glob('run-*')))"


def name_of(found: dict[str, Any]) -> str:
    """Return the name of a pod."""
    return str(found["metadata"]["name"])


def test_a_trainer_goes_on_when_its_sampler_is_killed_and_starts_again(space: Space, models: None, say: Say) -> None:
    name = runs.start(space, grpos.runtime(space), grpos.job(space))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")

    assert grpos.inside(space, name_of(sampler), _ENGINE)
    begun, before = time.monotonic(), len(grpos.logged(grpos.log(space, name_of(trainer)), "reward"))
    grpos.stepped(space, before + 2)  # the step before it may have had its samples already
    say(f"sampler killed in its container: {time.monotonic() - begun:.1f} s to the next good step")

    status = grpos.pod(space, "sampler")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1, status
    assert status["lastState"]["terminated"]["exitCode"] == 1, status
    served = grpos.log(space, name_of(sampler))
    assert "began with run-" in served, "it begins with the version that was served last"
    exact(space, name)


def test_a_trainer_goes_on_when_the_pod_of_its_sampler_is_deleted(space: Space, models: None, say: Say) -> None:
    name = runs.start(space, grpos.runtime(space), grpos.job(space))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")

    space.delete("pod", name_of(sampler), grace=0).expect()
    begun, before = time.monotonic(), len(grpos.logged(grpos.log(space, name_of(trainer)), "reward"))
    grpos.stepped(space, before + 2)
    say(f"sampler's pod deleted: {time.monotonic() - begun:.1f} s to the next good step")

    assert grpos.pod(space, "sampler")["metadata"]["uid"] != sampler["metadata"]["uid"]
    exact(space, name)


def test_a_trainer_that_is_killed_begins_again_with_a_sampler_of_its_own(space: Space, models: None, say: Say) -> None:
    name = runs.start(space, grpos.runtime(space, restarts=3), grpos.job(space))
    trainer = grpos.stepped(space, _MIDDLE)

    grpos.inside(space, name_of(trainer), _TRAINER)
    begun = time.monotonic()
    grpos.stepped(space, 1, trainer["metadata"]["uid"])
    say(f"trainer killed, both roles started again: {time.monotonic() - begun:.1f} s to the next good step")

    exact(space, name)
    assert (space.jobset(name) or {})["status"]["restarts"] == 1
    nothing_left(space)


def test_a_trainer_that_is_killed_in_a_pause_leaves_a_sampler_that_the_next_one_takes_over(
    space: Space, models: None, say: Say
) -> None:
    made = grpos.runtime(space, retries=2, MUSTER_WEIGHTS_LEASE="5")
    name = runs.start(space, made, grpos.job(space))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")

    # The pause is not the trainer's own, which is over in milliseconds; it holds the requests of the next step.
    grpos.inside(space, name_of(trainer), _PAUSE + _TRAINER)
    begun = time.monotonic()
    grpos.stepped(space, 1, trainer["metadata"]["uid"])
    say(f"trainer killed, its sampler paused and kept: {time.monotonic() - begun:.1f} s to the next good step")

    after = grpos.pod(space, "sampler")
    assert after["metadata"]["uid"] == sampler["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    exact(space, name)
    nothing_left(space)


def exact(space: Space, name: str) -> None:
    """The training learns to its end, and each step of the trainer that is left sampled from its weights."""
    ranks = runs.ended(space, name)
    (done,) = [rank for rank in ranks if rank.code == 0]
    rewards, differences = grpos.logged(done.log, "reward"), grpos.logged(done.log, grpos.DIFFERENCE)
    assert len(rewards) == len(differences) == grpos.STEPS, done.log
    assert max(differences) < grpos.EXACT, differences
    assert sum(rewards[-4:]) > 4 * 0.8, rewards


def nothing_left(space: Space) -> None:
    """No version of a dead trainer or of this one stays on the volume."""
    found = runs.python(space, "trl", "left", _LEFT.format(folder=grpos.folder(space)))
    assert found.splitlines()[-1] == "[]", found
