"""Inspections: what a strategy hands back is looked at before it is used.

A strategy from another distribution may write into the job's document instead of recording, now or later from a thread
that nobody waits for any more; so it gets a document of its own, and afterwards that must be as it was, and what it
made must be what its recorded operations make. A value that is no JSON would fail later, in the answer or the audit
log, where nobody could tell whose it was. Whatever is wrong here is the strategy's failure.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from strategies.changes.changes import Changes
from strategies.documents.findings import Finding, Severity
from webhook.admission.governors import Governor

__all__ = ["check_changes", "check_findings", "document_of_its_own", "governor_of_its_own"]


def document_of_its_own(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a deep copy of a JSON document."""
    copy: Mapping[str, Any] = orjson.loads(orjson.dumps(document))
    return copy


def governor_of_its_own(governor: Governor) -> Governor:
    """Return a copy whose documents no other request reads."""
    runtime, owner = governor.runtime, governor.owner
    return dataclasses.replace(
        governor,
        runtime=runtime and dataclasses.replace(runtime, document=document_of_its_own(runtime.document)),
        owner=owner and document_of_its_own(owner),
        supply=copy.deepcopy(governor.supply),
    )


def check_changes(changes: Changes, document: Mapping[str, Any]) -> None:
    """Check what was recorded on a copy of `document`.

    Raises:
        TypeError: a value is no JSON, or a rule or reason no text.
        ValueError: something was written into a document and not recorded.
    """
    for change in changes:
        _check_json(change.operation.get("value"), change.field)
        if not _is_text(change.rule) or not _is_text(change.reason):
            raise TypeError(f"{change.field}: rule {change.rule!r} and reason {change.reason!r} must be text")
    if changes.original != document or not changes.is_whole:
        raise ValueError("it wrote into the job's document; changes are made with set, append and remove of `changes`")
    check_findings(changes.findings)


def check_findings(found: Iterable[object]) -> list[Finding]:
    """Return the findings as a list.

    Raises:
        TypeError: there are none to iterate, one is no Finding, or has a member of another type.
    """
    every: list[Finding] = []
    for each in found:
        if not isinstance(each, Finding) or not isinstance(each.severity, Severity):
            raise TypeError(f"{each!r} is no Finding; make it with strategies.error or strategies.warning")
        if not all(_is_text(text) for text in (each.field, each.message, each.rule)):
            raise TypeError(f"field, message and rule of {each!r} must be text")
        _check_json(each.value, each.field)
        every.append(each)
    return every


def _is_text(value: object) -> bool:
    return isinstance(value, str) and _is_json(value)


def _check_json(value: Any, field: str) -> None:
    if not _is_json(value):
        raise TypeError(f"{field}: {type(value).__name__} {str(value)[:80]!r} is no JSON value")


def _is_json(value: Any) -> bool:
    """Whether a value comes back from JSON as it went: no bytes, no NaN, no key but text, no half of a character."""
    try:
        same: bool = orjson.loads(orjson.dumps([value])) == [value]
    except (TypeError, orjson.JSONDecodeError):
        return False
    return same
