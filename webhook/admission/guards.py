"""Guards: calls a strategy so that a failure is attributed to it and a slow call is ended.

Muster's own strategies run on the calling thread. A strategy from another distribution runs on its own thread with a
time budget: Python cannot stop the thread, so when the budget is used up, the result is dropped and the thread is left
to end. A strategy with too many such threads is not called again until they have ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from strategies.plugins.registry import PluginError, Registered
from webhook.audit.redaction import doors

__all__ = ["MAX_STRAY", "call", "told"]

MAX_STRAY = 4
"""Threads of one plugin that may be over their budget before the plugin is no longer called."""

_MAX_MESSAGE = 500
_MAX_NAME = 100
_Result = TypeVar("_Result")
_stray: Counter[str] = Counter()
_lock = threading.Lock()


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
    if _stray[name] >= MAX_STRAY:
        raise PluginError(
            registered, stage, f"{MAX_STRAY} earlier calls are still running after their time budget; it is not called"
        )
    results: list[_Result] = []
    failures: list[str] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  # handed to the caller, who names it; a plugin may even exit
            failures.append(told(error))  # here, because its text is the plugin's code too
        finally:
            with _lock:
                done.set()
                if threading.current_thread() in late:
                    _stray[name] -= 1

    late: set[threading.Thread] = set()
    thread = threading.Thread(target=run, name=f"strategy-{registered.strategy.framework}", daemon=True)
    thread.start()
    if not done.wait(budget):
        with _lock:
            if not done.is_set():
                late.add(thread)
                _stray[name] += 1
        if late:
            raise PluginError(registered, stage, f"took longer than its {budget:g} s")
    if failures:
        raise PluginError(registered, stage, failures[0])
    return results[0]


def told(error: BaseException) -> str:
    """Return type and shortened message; the exception may come from a plugin and fail to render itself."""
    kind = _said(lambda: type(error).__name__, "its name")
    return f"{kind[:_MAX_NAME]}: {doors.text(_said(lambda: str(error), 'its message'), _MAX_MESSAGE)}"


def _said(speak: Callable[[], str], what: str) -> str:
    """Return a text of an exception; one that fails, even by leaving the process, is told as the failure it is."""
    try:
        return speak()
    except BaseException as worse:  # noqa: BLE001  # whatever it is, it must not end the process
        return f"({what} fails with {type(worse).__name__})"
