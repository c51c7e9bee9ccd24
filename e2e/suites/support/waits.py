"""Waiting with a deadline: a condition is polled, and nothing sleeps for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["until", "within"]

_Value = TypeVar("_Value")
_FIRST, _LONGEST, _GROWTH = 0.1, 1.0, 1.5
_PATIENCE = 3  # a machine of two cores stalls for ten seconds now and then


def until(what: str, check: Callable[[], _Value], seconds: float = 30) -> _Value:
    """Ask `check` until its answer is truthy, and return that.

    Args:
        what: what is waited for; the error names it.
        check: is asked at once, after 0.1 s, and at growing distances of up to 1 s. An exception of it counts as
            "not yet": things may not be there.
        seconds: the longest that it takes on an idle machine; the wait is three times as long.

    Raises:
        AssertionError: the time is over; with the last answer or exception.
    """
    return within(what, check, seconds * _PATIENCE)


def within(what: str, check: Callable[[], _Value], seconds: float) -> _Value:
    """Do as `until`, where the seconds themselves are what is tested.

    Args:
        what: what is waited for.
        check: the condition.
        seconds: the longest wait.

    Raises:
        AssertionError: the time is over; with the last answer or exception.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST
    while True:
        last, cause = _ask(check)
        if cause is None and last:
            return last
        left = deadline - time.monotonic()
        if left <= 0:
            told = f"{type(cause).__name__}: {cause}" if cause else repr(last)
            raise AssertionError(f"waited {seconds:g} s for {what}; last seen: {told[:4000]}") from cause
        time.sleep(min(pause, left))
        pause = min(pause * _GROWTH, _LONGEST)


def _ask(check: Callable[[], _Value]) -> tuple[_Value | None, Exception | None]:
    try:
        return check(), None
    except Exception as error:  # noqa: BLE001  # told at the deadline, whatever it is
        return None, error
