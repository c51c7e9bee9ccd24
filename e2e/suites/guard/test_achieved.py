"""A job of an image that Muster has never seen, which `explain` calls open, says what it achieved while it runs."""

from __future__ import annotations

from e2e.suites.guard import jobs
from e2e.suites.support import statuses, waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space, conditions
from e2e.suites.training import runs


def test_a_training_that_documents_leave_open_shows_achieved_of_expected_while_it_runs(
    space: Space, kubectl: Kubectl
) -> None:
    job = jobs.trainjob("hand", "together", "5", "stays")
    name = runs.start(space, jobs.program(), jobs.runtime(), job)

    said = jobs.achieved(space, name, world_size="2", nodes="2", gradients="shared")

    assert said["expected-world-size"] == "2", said
    assert "Complete" not in conditions(space.trainjob(name) or {})
    story = statuses.told(kubectl, name, "-n", space.name)
    print(story)
    jobs.end(space, name)
    ranks = runs.ended(space, name)
    assert [rank.report()["worldSize"] for rank in ranks] == [2, 2]
