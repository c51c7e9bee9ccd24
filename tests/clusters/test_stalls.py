"""What the suites leave out of account because the machine stood still, and what they do not."""

from __future__ import annotations

import ctypes
import time

import pytest

from e2e.suites.support import stalls, waits


@pytest.fixture
def stood_still(monkeypatch):
    """Between the seconds 100 and 112."""
    monkeypatch.setattr(stalls, "_stalls", [(100.0, 112.0)])


@pytest.mark.usefixtures("stood_still")
@pytest.mark.parametrize(
    ("begun", "ended", "overlaps"),
    [(90, 99, False), (90, 101, True), (103, 105, True), (111, 113, True), (116, 117, True), (118, 130, False)],
)
def test_what_was_under_way_while_it_stood_still_or_just_after_overlaps(begun, ended, overlaps):
    assert stalls.overlap(begun, ended) is overlaps


@pytest.mark.usefixtures("stood_still")
@pytest.mark.parametrize(("since", "seconds"), [(90, 12), (105, 7), (112, 0), (200, 0)])
def test_of_a_standstill_that_part_is_lost_which_came_since(since, seconds):
    assert stalls.lost(since) == seconds


def test_a_process_that_gets_no_time_for_a_while_has_stood_still():
    begun = time.monotonic()
    ctypes.PyDLL(None).usleep(1_500_000)  # keeps the interpreter's lock
    waits.until("the standstill to be noticed", lambda: stalls.lost(begun) > 1)
    assert stalls.overlap(begun, begun)


def test_a_wait_is_patient_and_a_limit_that_is_tested_is_kept():
    asked = []
    begun = time.monotonic()
    with pytest.raises(AssertionError, match=r"waited 0\.3 s for nothing; last seen: None"):
        waits.until("nothing", lambda: asked.append(1), 0.1)
    assert time.monotonic() - begun >= 0.3
    with pytest.raises(AssertionError, match=r"waited 0\.1 s for nothing"):
        waits.within("nothing", lambda: None, 0.1)
