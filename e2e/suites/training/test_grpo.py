"""GRPO from one TrainJob: a trainer and a vLLM sampler come up in order, exchange exact weights, and end together."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

import pytest

from e2e.suites.support import statuses, thorough, waits
from e2e.suites.support.guards import KEPT
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.training import grpos, runs

IMAGES = ("trl", "rl")
_SCRAPE = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{grpos.METRICS}/metrics').read().decode())"
_PLOT = "import pathlib; print(pathlib.Path('{folder}/0/muster-training.svg').read_text())"


@pytest.mark.parametrize("nodes", thorough.but(1, of=[1, 2]))
def test_a_trainer_learns_from_a_sampler_that_serves_exactly_its_weights(
    space: Space, keeper: Spare, models: None, say: Callable[[str], None], nodes: int
) -> None:
    begun = time.monotonic()
    name = runs.start(space, grpos.runtime(space), grpos.job(space, numNodes=nodes))
    seen(space)
    say(f"sampler ready after {ready(grpos.pod(space, 'sampler')):.0f} s, metrics {time.monotonic() - begun:.0f} s")

    ranks = runs.ended(space, name)
    say(f"ended after {time.monotonic() - begun:.0f} s; {ranks[0].report()}")

    assert [rank.report()["worldSize"] for rank in ranks] == [nodes] * nodes
    rewards = grpos.logged(ranks[0].log, "reward")
    assert len(rewards) == grpos.STEPS, ranks[0].log
    assert sum(rewards[-4:]) > 4 * 0.8 > 4 * 0.3 > sum(rewards[:4]), rewards
    differences = grpos.logged(ranks[0].log, grpos.DIFFERENCE)
    assert len(differences) == grpos.STEPS
    assert max(differences) < grpos.EXACT
    waits.until("the sampler to be gone", lambda: not grpos.samplers(space), 60)
    told(space, name)
    plot = runs.python(space, "trl", "plot", _PLOT.format(folder=grpos.folder(space)))
    assert "Mean reward of a step" in plot


def seen(space: Space) -> None:
    """While it runs, its metrics are there."""

    def look() -> bool:
        first = next(each for each in space.pods(_FIRST) if "deletionTimestamp" not in each["metadata"])
        lines = grpos.inside(space, first["metadata"]["name"], _SCRAPE).splitlines()
        found = dict(line.split() for line in lines if line.startswith("muster_training_"))
        assert float(found["muster_training_step"]) >= 1, found
        assert float(found["muster_training_sampling_logp_difference"]) < grpos.EXACT, found
        assert float(found["muster_training_weight_sync_seconds_count"]) >= 1, found
        return True

    waits.until("the metrics of the first trainer", look, grpos.PATIENCE)


def ready(pod: dict[str, Any]) -> float:
    """Return the seconds from the start of a pod until it was ready."""
    (told,) = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    since, until = (
        datetime.datetime.fromisoformat(each) for each in (pod["status"]["startTime"], told["lastTransitionTime"])
    )
    return (until - since).total_seconds()


_FIRST = "jobset.sigs.k8s.io/replicatedjob-name=node,batch.kubernetes.io/job-completion-index=0"


def told(space: Space, name: str) -> None:
    """What the training said of its samples is kept and told."""

    def look() -> bool:
        annotations = (space.jobset(name) or {})["metadata"].get("annotations") or {}
        assert "sampling" in annotations.get(KEPT, ""), annotations
        return True

    waits.until("the report of the first trainer to be kept", look, 60)
    story = statuses.told(space.kubectl, name, "-n", space.name, "--check")
    assert story["sampling"]["syncs"] == grpos.STEPS
    assert story["sampling"]["reward"] > 0.8
    assert story["sampling"]["difference"] < grpos.EXACT
    assert any(line.startswith("SAMPLING reward ") for line in statuses.lines(space.kubectl, name, "-n", space.name))
