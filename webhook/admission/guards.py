"""Guards: calls a strategy so that a failure is attributed to it and a slow call is ended.

Muster's own strategies run on the calling thread. A strategy from another distribution runs on its own thread with a
time budget. When the budget is used up, the result is dropped and the thread is told to end, and again at each later
call. A strategy with too many threads that do not is not called again until they have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from muster.audit import scanner
from muster.strategies.plugins.registry import PluginError, Registered
from muster.webhook.admission import threads

__all__ = ["MAX_STRAY", "call", "told"]

MAX_STRAY = 4
"""Threads of one plugin that may be over their budget before the plugin is no longer called."""

_MAX_MESSAGE = 500
_MAX_NAME = 100
_Result = TypeVar("_Result")


def call(registered: Registered, stage: str, work: Callable[[], _Result], budget: float) -> _Result:
    """Return what `work` returns.

    Args:
        registered: the strategy that is called.
        stage: the protocol's method, for the error.
        work: the call, without arguments.
        budget: seconds, for strategies of other distributions.

    Raises:
        PluginError: the work raised, took longer than its budget, or was refused.
    """
    try:
        return work() if registered.in_tree else _on_a_thread(registered, stage, work, budget)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(registered, stage, told(error)) from error


def _on_a_thread(registered: Registered, stage: str, work: Callable[[], _Result], budget: float) -> _Result:
    name = str(registered)
    _stray[name] = [each for each in _stray.get(name, ()) if each.thread.tell()]
    if len(_stray[name]) >= MAX_STRAY:
        raise PluginError(
            registered, stage, f"{MAX_STRAY} earlier calls are still running after their time budget; it is not called"
        )
    called = _Call(work, f"strategy-{registered.strategy.framework}")
    if not called.ends_within(budget):
        _stray[name].append(called)
        raise PluginError(registered, stage, f"took longer than its {budget:g} s")
    if called.failure:
        raise PluginError(registered, stage, called.failure)
    return called.results[0]


class _Call(Generic[_Result]):
    """One call of a plugin on a thread of its own."""

    def __init__(self, work: Callable[[], _Result], name: str) -> None:
        self._work = work
        self._done = threading.Event()
        self.thread = threads.Ended(self._do, name)
        self.results: list[_Result] = []
        self.failure = ""

    def ends_within(self, budget: float) -> bool:
        """Begin, and tell the thread to end when nobody waits for it any more."""
        self.thread.start()
        in_time = False
        try:
            in_time = self._done.wait(budget)
        finally:
            if not in_time:
                self.thread.tell()
        return in_time

    def _do(self) -> None:
        try:
            self.results.append(self._work())
        except threads.GivenUpError:
            raise
        except BaseException as error:  # noqa: BLE001  # handed to the caller, who names it; a plugin may even exit
            self.failure = told(error)  # here, because its text is the plugin's code too
        self._done.set()


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


_stray: dict[str, list[_Call[Any]]] = {}
