"""What `muster migrate` makes of the old operators' examples is admitted, and Trainer makes as many pods of it."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.errors import ClusterError
from e2e.suites.migrations import examples
from e2e.suites.support import waits
from webhook.cli import main

_QUICK = {"cpu-demo/demo", "echo/echo", "xgboost/xgboostjob", "tensorflow/simple", "pi/pi"}


def _parameters() -> list[Any]:
    try:
        names = sorted(set(examples.files()) - examples.OTHERS - set(examples.REFUSED))
    except ClusterError as error:
        return [pytest.param("", id="modules", marks=pytest.mark.skip(reason=f"cannot be read: {error}"))]
    return [pytest.param(each, marks=() if each in _QUICK else pytest.mark.thorough) for each in names]


def migrated(file: Path) -> list[dict[str, Any]]:
    """The documents of the output, for the namespace of the test."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main.main(["migrate", str(file)]) in (0, 1)
    documents = list(yaml.load_all(out.getvalue(), yaml.CSafeLoader))
    for each in documents:
        each["metadata"].pop("namespace", None)
    return documents


@pytest.mark.parametrize("name", _parameters())
def test_a_migrated_example_is_admitted_and_has_as_many_pods(space, name):
    *runtimes, job = migrated(examples.files()[name])
    for each in runtimes:
        space.apply(each, server_side=True).expect()
    # Trainer's webhook reads runtimes from a cache that may not have this one yet.
    waits.until("the TrainJob to be admitted", lambda: space.apply(job, dry_run=True).ok, 20)
    applied = space.apply(job).expect()
    assert [each for each in applied.warnings if "unknown field" in each] == []
    jobset = space.wait_jobset(job["metadata"]["name"])
    counts = {each["name"]: each["template"]["spec"]["parallelism"] for each in jobset["spec"]["replicatedJobs"]}
    launcher = {"launcher": 1} if "launcher" in counts else {}
    assert counts == {"node": job["spec"]["trainer"]["numNodes"], **launcher}
