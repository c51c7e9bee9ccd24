"""Calls of a strategy, and of what it returns only what is sound.

Muster's own strategies are called as they are. For a strategy from another distribution an alarm (SIGALRM) is set,
which raises an exception in it when its time is up. In the service such a strategy is only called in a process of its
own (`muster.webhook.server.forks`), whose end is sure. An alarm rings in the main thread; on another one there is none.

Such a strategy may also write into the job's document instead of recording a change, even later, from a thread that has
run over its budget. So it gets copies. Afterwards the copy must be unchanged, and the result must be what the recorded
operations lead to. A value that is not JSON would fail later, in the answer or the audit log, where its origin is not
known. Whatever is wrong counts as a failure of the strategy.
"""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import orjson
from msgspec import structs

from muster.audit import scanner
from muster.strategies.changes.changes import Changes
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding, Severity
from muster.strategies.plugins.registry import PluginError, Registered
from muster.webhook.admission.governors import Governor

__all__ = ["MOST_RETURNED", "NotHereError", "call", "changes_of", "check_changes", "check_findings", "lent", "told"]

MOST_RETURNED = 10_000
"""Findings of one call of a strategy."""

_MAX_MESSAGE = 500
_MAX_NAME = 100
_AGAIN = 0.1  # seconds after which what caught the alarm is interrupted again
_MOST_CHANGES = 4096
_LONGEST_RULE, _LONGEST_REASON = 128, 1024
_MAKERS = {Severity.ERROR: findings.error, Severity.WARNING: findings.warning, Severity.NOTE: findings.note}
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


def changes_of(strategy: Registered, document: Mapping[str, Any]) -> Changes:
    """Return no changes yet of a document, or of a copy of it that the strategy has for itself."""
    return Changes(document if strategy.in_tree else _plain(document)[0])


def lent(strategy: Registered, governor: Governor) -> Governor:
    """Return a governor, or a copy whose documents are not shared with other requests."""
    if strategy.in_tree:
        return governor
    runtime, owner = governor.runtime, governor.owner
    return structs.replace(
        governor,
        runtime=runtime and structs.replace(runtime, document=_plain(runtime.document)[0]),
        owner=owner and _plain(owner)[0],
        supply=copy.deepcopy(governor.supply),
    )


def check_changes(changes: Changes, document: Mapping[str, Any]) -> None:
    """Check the changes that were recorded on a copy of `document`.

    Raises:
        TypeError: a value is not JSON, or a rule or reason is not a string, or a long one.
        ValueError: there are too many changes, or the document was changed without a recorded change.
    """
    if len(changes) > _MOST_CHANGES:
        raise ValueError(f"it made {len(changes)} changes, and an answer has at most {_MOST_CHANGES}")
    for change in changes:
        _check_json(change.operation.get("value"), change.field)
        if not _is_text(change.rule, _LONGEST_RULE) or not _is_text(change.reason, _LONGEST_REASON):
            raise TypeError(
                f"{change.field}: rule {change.rule!r:.80} and reason {change.reason!r:.80} must be strings of at most"
                f" {_LONGEST_RULE} and {_LONGEST_REASON} characters"
            )
    if changes.original != document or not changes.is_whole:
        raise ValueError("it wrote into the job's document; changes are made with set, append and remove of `changes`")
    changes.findings = check_findings(changes.findings)


def check_findings(found: Iterable[object]) -> list[Finding]:
    """Return the findings as a list, made anew of plain values, so that showing them later runs nothing of a plugin.

    Raises:
        TypeError: it is not iterable, an item is not a Finding, or a member of one has the wrong type.
        ValueError: there are more than `MOST_RETURNED`; it may go on for ever.
    """
    every: list[Finding] = []
    for each in found:
        if len(every) == MOST_RETURNED:
            raise ValueError(f"it returns more than {MOST_RETURNED} findings; report one for what many have in common")
        if not isinstance(each, Finding) or not isinstance(each.severity, Severity):
            raise TypeError(
                f"{each!r} is not a Finding; make it with muster.strategies.error or muster.strategies.warning"
            )
        if not all(_is_text(text) for text in (each.field, each.message)) or not _is_text(each.rule, _LONGEST_RULE):
            raise TypeError(
                f"field, message and rule of {each!r:.200} must be strings, the last of at most {_LONGEST_RULE}"
            )
        _check_json(each.value, each.field)
        every.append(_MAKERS[each.severity](*_plain(each.field, each.value, each.message), rule=_plain(each.rule)[0]))
    return every


def _plain(*values: Any) -> list[Any]:
    plain: list[Any] = orjson.loads(orjson.dumps(values))
    return plain


def _is_text(value: object, longest: int | None = None) -> bool:
    return isinstance(value, str) and (longest is None or len(value) <= longest) and _is_json(value)


def _check_json(value: Any, field: str) -> None:
    if not _is_json(value):
        raise TypeError(f"{field}: {type(value).__name__} {str(value)[:80]!r} is not a JSON value")


def _is_json(value: Any) -> bool:
    """Whether JSON keeps a value as it is: no bytes, no NaN, only strings as keys, no lone surrogates."""
    try:
        same: bool = orjson.loads(orjson.dumps([value])) == [value]
    except (TypeError, orjson.JSONDecodeError):
        return False
    return same
