"""What `muster migrate` makes of the old operators' examples is admitted, and Trainer makes as many pods of it."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.cluster.errors import ClusterError
from e2e.suites.migrations import examples
from e2e.suites.support import waits
from e2e.suites.support.migrations import migrated
from e2e.suites.support.spaces import Space

_QUICK = {"cpu-demo/demo", "echo/echo", "xgboost/xgboostjob", "tensorflow/simple", "pi/pi"}


def _parameters() -> list[Any]:
    try:
        names = sorted(set(examples.files()) - examples.OTHERS - set(examples.REFUSED))
    except ClusterError as error:
        return [pytest.param("", id="modules", marks=pytest.mark.skip(reason=f"cannot be read: {error}"))]
    return [pytest.param(each, marks=() if each in _QUICK else pytest.mark.thorough) for each in names]


@pytest.mark.parametrize("name", _parameters())
def test_a_migrated_example_is_admitted_and_has_as_many_pods(space: Space, name: str) -> None:
    *runtimes, job = migrated(examples.files()[name])
    for each in runtimes:
        space.apply(each, server_side=True).expect()
    # Trainer's webhook reads runtimes from a cache that may not have this one yet.
    waits.until("the TrainJob to be admitted", lambda: space.apply(job, dry_run=True).ok, 20)
    space.apply(job).expect()
    jobset = space.wait_jobset(job["metadata"]["name"])
    counts = {each["name"]: each["template"]["spec"]["parallelism"] for each in jobset["spec"]["replicatedJobs"]}
    launcher = {"launcher": 1} if "launcher" in counts else {}
    assert counts == {"node": job["spec"]["trainer"]["numNodes"], **launcher}
