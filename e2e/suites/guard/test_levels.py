"""Nodes that do not meet: the training goes on where the guard reports, and ends at once where it enforces."""

from __future__ import annotations

import pytest

from e2e.suites.guard import jobs
from e2e.suites.support import statuses, waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

_SENTENCE = "the training has 1 rank, but 2 were asked for"


def test_nodes_that_do_not_meet_train_on_and_are_told_of(space: Space, kubectl: Kubectl) -> None:
    job = jobs.trainjob("apart", "alone", "5", "stays")
    name = runs.start(space, jobs.program(), jobs.runtime(), job)

    said = jobs.achieved(space, name, world_size="1", verdict="size-differs")

    assert said["expected-world-size"] == "2"
    event = waits.until("an Event about it", lambda: warned(space, name), 60)
    assert _SENTENCE in event["message"]
    assert any(_SENTENCE in line for line in statuses.lines(kubectl, name, "-n", space.name))
    jobs.end(space, name)
    ranks = runs.ended(space, name)
    assert [rank.code for rank in ranks] == [0, 0]
    assert all("finished" in rank.log for rank in ranks)
    assert len(warnings(space, name)) == 1


def test_nodes_that_do_not_meet_end_where_the_namespace_enforces(space: Space) -> None:
    kubectl = space.kubectl
    kubectl.run("label", "namespace", space.name, "muster.dev/guard=enforce").expect()
    # The author asks for less, which no author can.
    job = jobs.trainjob("apart", "alone", "5", "stays", labels={"muster.dev/guard": "off"})
    name = runs.start(space, jobs.program(), jobs.runtime(), job)

    ranks = runs.ended(space, name, "Failed")

    assert ranks
    assert {rank.code for rank in ranks} == {runs.GUARDED}
    assert all("this training has 1 rank, but 2 were asked for" in rank.message for rank in ranks)


def test_a_job_whose_author_wants_no_guard_has_none(space: Space) -> None:
    job = jobs.trainjob("apart", "alone", "5", labels={"muster.dev/guard": "off"})
    name = runs.start(space, jobs.program(), jobs.runtime(), job)

    ranks = runs.ended(space, name)

    assert [rank.message for rank in ranks] == ["", ""]
    assert jobs.metrics(space, name) == {}


def warned(space: Space, name: str) -> dict[str, object]:
    """Return the first warning Event about a TrainJob.

    Raises:
        IndexError: there is none.
    """
    return warnings(space, name)[0]


def warnings(space: Space, name: str) -> list[dict[str, object]]:
    """Return the warning Events about a TrainJob."""
    about = {"kind": "TrainJob", "name": name}
    found = [each for each in space.events() if each["type"] == "Warning"]
    return [each for each in found if about.items() <= each["involvedObject"].items()]
