"""Images that Muster did not make: programs run as without the guard, and are measured where Python lets it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.suites.guard import jobs
from e2e.suites.support import documents, nodeimages
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

# What a program prints in each image, by itself.
_IMAGES: Mapping[str, tuple[str, ...]] = {
    "pip": ("python /opt/venv customized by nobody", "child customized by nobody", "team not found"),
    "conda": ("python /opt/conda customized by nobody", "child customized by nobody", "team not found"),
    "customized": ("python /opt/venv customized by team", "child customized by team", "team not found"),
    "searching": ("python /opt/venv customized by nobody", "child customized by nobody", "team team"),
    "entered": ("python /opt/venv customized by nobody", "child customized by nobody", "team team"),
}
_UNGUARDED = {"muster.dev/guard": "off"}


@pytest.fixture(scope="module", autouse=True)
def images(kubectl: Kubectl) -> None:
    """Needs every kind of image that is not Muster's."""
    nodeimages.need(kubectl, set(jobs.IMAGES.values()))


@pytest.mark.parametrize("kind", _IMAGES)
def test_a_program_prints_and_learns_the_same_with_the_guard(space: Space, kind: str) -> None:
    runtime = jobs.runtime(kind)
    guarded, alone = job("guarded", kind), job("alone", kind, labels=_UNGUARDED)
    space.apply(jobs.program()).expect()
    runs.start(space, runtime, guarded)
    space.apply(alone).expect()

    with_guard, without = runs.ended(space, "guarded"), runs.ended(space, "alone")

    assert [lines(rank) for rank in with_guard] == [lines(rank) for rank in without]
    assert lines(with_guard[0])[:3] == [*_IMAGES[kind]]
    assert [rank.message for rank in without] == ["", ""]
    if kind == "entered":  # its entry point takes the guard's folder from PYTHONPATH
        assert [rank.message for rank in with_guard] == ["", ""]
        assert jobs.metrics(space, "guarded") == {}
    else:
        assert [rank.report()["worldSize"] for rank in with_guard] == [2, 2]


def test_an_entry_point_that_extends_the_search_path_keeps_the_guard(space: Space) -> None:
    runtime = jobs.runtime("entered", env={"EXTEND": "1"})
    space.apply(jobs.program()).expect()
    runs.start(space, runtime, job("guarded", "entered"))

    ranks = runs.ended(space, "guarded")

    assert [rank.report()["worldSize"] for rank in ranks] == [2, 2]
    assert "team team" in lines(ranks[0])


def job(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return a job of two nodes; that of an image with an entry point has arguments only."""
    words = (*jobs.TRAIN, "together", "5")
    if kind == "entered":
        return documents.trainjob(name, "training", trainer={"args": [*words]}, **more)
    return jobs.trainjob(name, command=words, **more)


def lines(rank: runs.Rank) -> list[str]:
    """Return what the program of a rank printed, without the guard's report."""
    return [line for line in rank.log.splitlines() if not line.startswith('{"schema":"muster.dev/')]
