"""Guards: calls a strategy so that a failure is attributed to it and a slow call is ended.

Muster's own strategies are called as they are. For a strategy from another distribution an alarm (SIGALRM) is set,
which raises an exception in it when its time is up. In the service such a strategy is only called in a process of its
own (`muster.webhook.server.forks`), whose end is sure. An alarm rings in the main thread; on another one there is none.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from muster.audit import scanner
from muster.strategies.plugins.registry import PluginError, Registered

__all__ = ["NotHereError", "call", "told"]

_MAX_MESSAGE = 500
_MAX_NAME = 100
_AGAIN = 0.1  # seconds after which what caught the alarm is interrupted again
_Result = TypeVar("_Result")


class NotHereError(Exception):
    """A plugin may not be called in this process; evaluate again in one of its own."""


class _LateError(BaseException):
    """Raised in a call whose time is up; no `except Exception` on its way keeps it."""


def call(registered: Registered, stage: str, work: Callable[[], _Result], budget: float) -> _Result:
    """Return what `work` returns.

    Args:
        registered: the strategy that is called.
        stage: the protocol's method, for the error.
        work: the call, without arguments.
        budget: seconds, for strategies of other distributions; 0 where they may not be called.

    Raises:
        PluginError: the work raised, or took longer than its budget.
        NotHereError: the strategy is of another distribution, and the budget is 0.
    """
    if registered.in_tree:
        try:
            return work()
        except Exception as error:
            raise PluginError(registered, stage, told(error)) from error
    if not budget:
        raise NotHereError
    try:
        with _alarm(budget):
            return work()
    except _LateError as error:
        raise PluginError(registered, stage, f"took longer than its {budget:g} s") from error
    except BaseException as error:  # a plugin may even exit
        raise PluginError(registered, stage, told(error)) from error


@contextlib.contextmanager
def _alarm(budget: float) -> Iterator[None]:
    """Raise `_LateError` in the block when its time is up, again where that was caught, and at its end."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    waiting, rung = True, False

    def ring(*_: object) -> None:
        nonlocal rung
        if waiting:
            rung = True
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
            raise _LateError

    handler, timer = signal.signal(signal.SIGALRM, ring), signal.setitimer(signal.ITIMER_REAL, budget)
    try:
        yield
    finally:
        waiting = False
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
    if rung:
        raise _LateError


def told(error: BaseException) -> str:
    """Return type and shortened message; the exception may come from a plugin and fail to render itself."""
    kind = _said(lambda: type(error).__name__, "its name")
    return f"{kind[:_MAX_NAME]}: {scanner.text(_said(lambda: str(error), 'its message'), _MAX_MESSAGE)}"


def _said(speak: Callable[[], str], what: str) -> str:
    """Return a text of an exception; one that fails, even by leaving the process, is told as the failure it is."""
    try:
        return speak()
    except BaseException as worse:  # noqa: BLE001  # whatever it is, it must not end the process
        return f"({what} fails with {type(worse).__name__})"
