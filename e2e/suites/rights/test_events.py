"""Role `muster-events`: what a refusal needs to become an Event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.suites.rights import accounts, looks
from e2e.suites.rights.accounts import Account, Right
from e2e.suites.rights.conftest import Begin
from e2e.suites.support import documents
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("rights to events")

FILES = ("rbac.yaml", "rbac-events.yaml")
ROLE = "muster-events"
NOT_WRITTEN = "event on a denial not written"


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account) -> Spare:
    """A Muster that writes Events on denials."""
    begun = begin(lent, {"audit": {"events": True}})
    begun.wait_ready()
    return begun


@pytest.fixture
def space(space: Space, lent: Account) -> Iterator[Space]:
    """A namespace in which Muster may write, with a runtime."""
    space.apply(documents.training_runtime("rt", command=["torchrun", "train.py"])).expect()
    with lent.let_in(space):
        until("Muster to be let in", lambda: lent.may((ROLE, "events", "create"), space))
        yield space


@pytest.mark.parametrize("right", [(ROLE, "events", "create")], ids=accounts.called)
def test_a_refusal_without_an_event_is_counted_and_told_once(
    right: Right, account: Account, muster: Spare, space: Space
) -> None:
    account.take(right)
    dropped, told = looks.dropped(muster), looks.warnings(muster, NOT_WRITTEN)
    refuse(muster, space, "one")
    refuse(muster, space, "two")
    until("both Events to be given up", lambda: looks.dropped(muster) == dropped + 2)
    assert looks.is_told(muster, right, space.name)
    assert looks.warnings(muster, NOT_WRITTEN) == told + 1
    assert events(space) == []
    until("a good job to be admitted", lambda: muster.ask(documents.trainjob("good", "rt"), space.name).allowed)

    account.give_back()
    refuse(muster, space, "three")
    until("the next refusal to have an Event", lambda: [about(each) for each in events(space)] == ["three"])


@pytest.mark.thorough
@pytest.mark.parametrize("right", [(ROLE, "events", "patch")], ids=accounts.called)
def test_a_refusal_that_comes_again_is_not_counted_up(
    right: Right, account: Account, muster: Spare, space: Space
) -> None:
    refuse(muster, space, "again")
    until("the refusal to have an Event", lambda: [each["count"] for each in events(space)] == [1])
    account.take(right)
    dropped = looks.dropped(muster)
    refuse(muster, space, "again")
    until("the count to be given up", lambda: looks.dropped(muster) == dropped + 1)  # ten seconds after the first
    assert looks.is_told(muster, right, space.name)
    assert [each["count"] for each in events(space)] == [1]

    account.give_back()
    refuse(muster, space, "again")
    until("it to be counted up", lambda: [each["count"] for each in events(space)] == [2])


def refuse(muster: Spare, space: Space, name: str) -> None:
    """Have a job without nodes refused."""
    answer = muster.ask(documents.trainjob(name, "rt", trainer={"numNodes": 0}), space.name, "validate")
    assert not answer.allowed
    assert "numNodes" in answer.message


def events(space: Space) -> list[dict[str, Any]]:
    """Return the Events on denials in a namespace."""
    return [each for each in space.events() if each["reason"] == "MusterDenied"]


def about(event: Mapping[str, Any]) -> str:
    """Return the name of the job that an Event is about."""
    return str(event["involvedObject"]["name"])
