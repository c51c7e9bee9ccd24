"""Either role of a GRPO job is killed, or both, or the API server is away: no step sees other weights.

A volume that is full ends the job with a reason.

The seconds to the next good step are printed; docs/internals/evidence.md has them.
"""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e.suites.support import waits
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import Space
from e2e.suites.training import grpos, runs

pytestmark = pytest.mark.thorough

IMAGES = ("trl", "rl")
Say = Callable[[str], None]
_MIDDLE = 4
_ROOM = "8Mi"
"""Of the volume of weights; a version of the model has 5.1 MiB."""
_OF_KUBELET = "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/weights"
_PAUSE = """
import os, urllib.request
url = f"http://{os.environ['MUSTER_SAMPLER']}:8000/pause?mode=keep"
print(urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60).status)
"""


def name_of(found: dict[str, Any]) -> str:
    """Return the name of a pod."""
    return str(found["metadata"]["name"])


def test_a_trainer_goes_on_when_its_sampler_is_killed_and_starts_again(space: Space, models: None, say: Say) -> None:
    name = runs.start(space, grpos.runtime(space), grpos.job(space))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")

    assert grpos.inside(space, name_of(sampler), grpos.KILL_ENGINE)
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

    grpos.inside(space, name_of(trainer), grpos.KILL_TRAINER)
    begun = time.monotonic()
    grpos.stepped(space, 1, trainer["metadata"]["uid"])
    say(f"trainer killed, both roles started again: {time.monotonic() - begun:.1f} s to the next good step")

    exact(space, name)
    assert (space.jobset(name) or {})["status"]["restarts"] == 1
    assert grpos.left(space) == []


def test_a_trainer_that_is_killed_in_a_pause_leaves_a_sampler_that_the_next_one_takes_over(
    space: Space, models: None, say: Say
) -> None:
    made = grpos.runtime(space, retries=2, MUSTER_WEIGHTS_LEASE="5")
    name = runs.start(space, made, grpos.job(space))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")

    # The pause is not the trainer's own, which is over in milliseconds; it holds the requests of the next step.
    grpos.inside(space, name_of(trainer), _PAUSE + grpos.KILL_TRAINER)
    begun = time.monotonic()
    grpos.stepped(space, 1, trainer["metadata"]["uid"])
    say(f"trainer killed, its sampler paused and kept: {time.monotonic() - begun:.1f} s to the next good step")

    after = grpos.pod(space, "sampler")
    assert after["metadata"]["uid"] == sampler["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    exact(space, name)
    assert grpos.left(space) == []


def test_both_roles_that_are_killed_begin_again(space: Space, models: None, say: Say) -> None:
    name = runs.start(space, grpos.runtime(space, restarts=3), grpos.job(space))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")

    assert grpos.inside(space, name_of(sampler), grpos.KILL_ENGINE)
    assert grpos.inside(space, name_of(trainer), grpos.KILL_TRAINER)
    begun = time.monotonic()
    grpos.stepped(space, 1, trainer["metadata"]["uid"])
    say(f"both killed: {time.monotonic() - begun:.1f} s to the next good step")

    exact(space, name)
    assert (space.jobset(name) or {})["status"]["restarts"] == 1
    assert grpos.left(space) == []


def test_a_training_goes_on_while_the_api_server_is_away(
    space: Space, installation: Installation, models: None, say: Say
) -> None:
    name = runs.start(space, grpos.runtime(space), grpos.job(space))
    trainer, sampler = grpos.stepped(space, _MIDDLE), grpos.pod(space, "sampler")

    begun = datetime.datetime.now(datetime.UTC)
    installation.restart_api_server()
    back = datetime.datetime.now(datetime.UTC)

    exact(space, name)
    made = steps(space, name_of(trainer))
    longest = max((after - before).total_seconds() for before, after in itertools.pairwise(made))
    meanwhile = sum(begun < each < back for each in made)
    away = (back - begun).total_seconds()
    say(f"API server away for {away:.1f} s, {meanwhile} steps meanwhile, {longest:.1f} s at most between two steps")
    assert (space.jobset(name) or {})["status"].get("restarts", 0) == 0
    assert grpos.pod(space, "node")["metadata"]["uid"] == trainer["metadata"]["uid"]
    served = space.get("pods", name_of(sampler))
    assert served is None or served["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_volume_that_is_full_ends_the_training_with_a_reason_and_leaves_nothing(space: Space, models: None) -> None:
    """The volume is one of the kubelet's, in memory, and holds one version of the model and no second one."""
    volume = {"name": "weights", "emptyDir": {"medium": "Memory", "sizeLimit": _ROOM}}
    spec = runs.pod_spec("trl", ["sleep", "3600"], terminationGracePeriodSeconds=1)
    spec["volumes"].append(volume)
    spec["containers"][0]["volumeMounts"].append({"name": "weights", "mountPath": "/weights"})
    space.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "store"}, "spec": spec}).expect()
    store = waits.until("the volume", lambda: running(space, "store"))
    assert store is not None

    made = grpos.runtime(space, weights=_OF_KUBELET.format(uid=store["metadata"]["uid"]))
    name = runs.start(space, made, grpos.job(space))
    (rank,) = runs.ended(space, name, "Failed")

    assert "Refused: weights: /weights is full: extend the volume" in rank.log, rank.log
    differences = grpos.logged(rank.log, grpos.DIFFERENCE)
    assert differences, "the first version has room"
    assert max(differences) < grpos.EXACT
    assert grpos.inside(space, "store", "import os; print(os.listdir('/weights'))").strip() == "[]"


def running(space: Space, name: str) -> dict[str, Any] | None:
    """Return a pod once it runs."""
    found = space.get("pods", name)
    return found if found is not None and found["status"].get("phase") == "Running" else None


def steps(space: Space, pod: str) -> list[datetime.datetime]:
    """Return when a trainer printed each of its steps."""
    lines = space.kubectl.run("logs", pod, "--namespace", space.name, "--timestamps").expect().out.splitlines()
    return [datetime.datetime.fromisoformat(line.partition(" ")[0]) for line in lines if "'reward'" in line]


def exact(space: Space, name: str) -> None:
    """The training learns to its end, and each step of the trainer that is left sampled from its weights."""
    ranks = runs.ended(space, name)
    (done,) = [rank for rank in ranks if rank.code == 0]
    rewards, differences = grpos.logged(done.log, "reward"), grpos.logged(done.log, grpos.DIFFERENCE)
    assert len(rewards) == len(differences) == grpos.STEPS, done.log
    assert max(differences) < grpos.EXACT, differences
    assert sum(rewards[-4:]) > 4 * 0.8, rewards
