"""What is written of a record whose redaction failed: who asked for what and what was decided, and no word of the body.

A failure is a bug, and it may be one that an author found. They must not be able to erase the record of their own job
with it, and no secret may be written because of it. So this module trusts nothing about the record, not even its shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, cast

from muster.webhook.audit.records import Record
from muster.webhook.audit.redaction import forms

__all__ = ["WORD", "concealed"]

WORD = "<concealed>"
"""What stands for each text of the body."""

_BODY = ("changes", "findings", "message")
_KNOWN = frozenset({"op", "rule", "severity"})  # words of Muster and of its strategies
_LONGEST = 512  # characters of a text
_MOST = 200  # entries of a list
_LEVELS = 4
_WHOLE = 2**63


def concealed(record: Record, why: str) -> Record:
    """Return the head of a record, and of its changes and findings only the rules.

    Args:
        record: as it was handed in.
        why: what failed, in words of Muster.
    """
    body = cast("Mapping[str, Any]", record)
    head = {key: _plain(value, _LEVELS) for key, value in body.items() if key not in _BODY}
    changes = [_known(change, ("path", "field", "reason")) for change in _entries(body.get("changes"))]
    findings = [_known(finding, ("field", "value", "message")) for finding in _entries(body.get("findings"))]
    message = f"{WORD}: {why}; see the log of Muster at this time"
    return cast("Record", {**head, "changes": changes, "findings": findings, "message": message})


def _entries(value: object) -> Iterable[Mapping[str, Any]]:
    entries = itertools.islice(value, _MOST) if isinstance(value, list) else ()
    return [each for each in entries if isinstance(each, dict)]


def _known(entry: Mapping[str, Any], hidden: Iterable[str]) -> dict[str, Any]:
    return {key: _plain(entry[key], 1) for key in entry if key in _KNOWN} | dict.fromkeys(hidden, WORD)


def _plain(value: object, levels: int) -> object:
    """Return what JSON can express and what is short, without tokens of a known form."""
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool) or (isinstance(value, int) and -_WHOLE <= value < _WHOLE):
        return value
    if levels and isinstance(value, dict):
        some = itertools.islice(value.items(), _MOST)
        return {_text(key): _plain(item, levels - 1) for key, item in some if isinstance(key, str)}
    if levels and isinstance(value, list):
        return [_plain(item, levels - 1) for item in value[:_MOST]]
    return WORD


def _text(text: str) -> str:
    text = text[: 16 * _LONGEST].encode("utf-8", "replace").decode()
    return forms.tokens(text, text.lower(), lambda _: WORD)[:_LONGEST]
