"""Inspections: what a strategy returns is checked before it is used.

A strategy from another distribution may write into the job's document instead of recording a change, even later, from a
thread that has run over its budget. So it gets a copy of the document. Afterwards the copy must be unchanged, and the
result must be what the recorded operations lead to. A value that is not JSON would fail later, in the answer or the
audit log, where its origin is not known. Everything that is wrong here counts as a failure of the strategy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from msgspec import structs

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding, Severity
from muster.webhook.admission.governors import Governor

__all__ = ["MOST_RETURNED", "check_changes", "check_findings", "document_of_its_own", "governor_of_its_own"]

MOST_RETURNED = 10_000
"""Findings of one call of a strategy."""

_MOST_CHANGES = 4096
_LONGEST_RULE, _LONGEST_REASON = 128, 1024
_MAKERS = {Severity.ERROR: findings.error, Severity.WARNING: findings.warning, Severity.NOTE: findings.note}


def document_of_its_own(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a deep copy of a JSON document."""
    copy: Mapping[str, Any] = orjson.loads(orjson.dumps(document))
    return copy


def governor_of_its_own(governor: Governor) -> Governor:
    """Return a copy whose documents are not shared with other requests."""
    runtime, owner = governor.runtime, governor.owner
    return structs.replace(
        governor,
        runtime=runtime and structs.replace(runtime, document=document_of_its_own(runtime.document)),
        owner=owner and document_of_its_own(owner),
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
