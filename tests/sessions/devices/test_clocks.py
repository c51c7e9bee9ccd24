"""The times of a lease."""

import pytest

from muster.sessions.devices.clocks import Driver, Times
from muster.sessions.devices.lease import (
    Asked,
    Done,
    End,
    Engine,
    Grant,
    Joined,
    Late,
    Leave,
    Left,
    Measured,
    Phase,
    TurnOver,
)

_TIMES = Times(turn=30, idle=1, leaving=20, freeing=5)
_NOBODY = Measured(frozenset())


def _working(now=0.0):
    """Return a driver at which a1 works and b1 and a2 have joined."""
    driver = Driver(_TIMES, 0.0)
    for engine in (Engine("a1", "a"), Engine("a2", "a"), Engine("b1", "b")):
        driver.tell(Joined(engine), 0.0)
    driver.tell(_NOBODY, 0.0)
    assert driver.tell(Asked("a1"), now) == (Grant("a1", 1),)
    return driver


def test_a_holder_works_for_as_long_as_it_likes_while_nobody_waits():
    driver = _working()
    assert driver.next() == float("inf")
    assert driver.late(1e6) is None


def test_a_turn_is_over_when_others_have_waited_for_its_length():
    driver = _working()
    driver.tell(Asked("b1"), 100)
    assert driver.next() == 130
    assert driver.late(129) is None
    assert driver.late(130) == TurnOver(1)
    assert driver.tell(TurnOver(1), 130) == (Leave("a1", 1),)
    assert driver.next() == 150
    assert driver.late(150) == Late(Phase.LEAVING, 1)
    assert driver.tell(Late(Phase.LEAVING, 1), 150) == (End("a1"),)


def test_a_turn_is_over_for_the_other_engine_of_its_own_session_too():
    driver = _working()
    driver.tell(Asked("a2"), 100)
    assert driver.late(130) == TurnOver(1)


def test_an_idle_holder_is_late_when_another_session_waits():
    driver = _working()
    driver.tell(Done("a1", 1), 10)
    assert driver.next() == float("inf")
    driver.tell(Asked("b1"), 50)
    assert driver.late(50) == Late(Phase.IDLE, 1)


def test_memory_that_stays_is_late_again_and_again():
    driver = _working()
    driver.tell(Left("a1", 1), 10)
    for now in (15, 20, 25):
        assert driver.late(now - 0.1) is None
        assert driver.late(now) == Late(Phase.VERIFYING, 1)
        driver.tell(Measured(frozenset({"a1"})), now)
        assert driver.tell(Late(Phase.VERIFYING, 1), now) == (End("a1"),)


@pytest.mark.parametrize(("waited", "had"), [(10.0, 10.0), (0.0, 0.0)])
def test_a_session_pays_for_the_seconds_for_which_others_waited(waited, had):
    driver = _working()
    before = dict(driver.lease.shares.tags)["a"]
    if waited:
        driver.tell(Asked("b1"), 100 - waited)
    driver.tell(Left("a1", 1), 100)
    driver.tell(Asked("b1"), 100)
    driver.tell(_NOBODY, 100)
    assert dict(driver.lease.shares.tags)["a"] - before == had


def test_an_agent_that_was_started_again_waits_for_the_engines_of_the_former_one():
    driver = Driver(_TIMES, 0.0, frozenset({"a1", "b1"}))
    driver.tell(Joined(Engine("a1", "a")), 1.0)
    assert driver.lease.phase is Phase.RECOVERING
    assert driver.late(20) == Late(Phase.RECOVERING, 0)
    assert driver.tell(Late(Phase.RECOVERING, 0), 20) == (End("b1"),)
    assert driver.lease.phase is Phase.VERIFYING


def test_an_agent_that_was_started_again_goes_on_as_soon_as_all_are_back():
    driver = Driver(_TIMES, 0.0, frozenset({"a1"}))
    driver.tell(Joined(Engine("a1", "a")), 1.0)
    assert driver.lease.phase is Phase.VERIFYING
