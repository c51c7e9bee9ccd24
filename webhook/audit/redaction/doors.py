"""The door: what Muster tells anybody outside of the log passes here, and no secret with it.

Answers, log lines of the process, Events and reports quote what a user wrote. Each text is redacted before it is cut,
since half a token could not be recognised, and whatever fails here ends in the word concealed, never in an exception.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import orjson

from strategies.documents.findings import Finding
from webhook.audit.records import Record
from webhook.audit.redaction import concealments, forms, secret_names, texts, walks
from webhook.audit.redaction.redaction import by_field

__all__ = ["LONGEST", "fields", "findings", "safely", "text", "value"]

LONGEST = 8192
"""Characters of one text outside of the audit log."""

_READ = 8 * LONGEST  # characters that are looked at
# Characters of different texts of a document that are looked through for the secrets that findings quote.
_LARGEST = 128 * 1024
_WHOLE = 2**63
_ASSIGNING = frozenset("=@")
_WORD = 4096  # characters before a cut in which its word begins


def text(given: object, longest: int = LONGEST) -> str:
    """Return a text, or what `str` says of another object, without secrets, cut at `longest` characters."""
    try:
        whole = given if isinstance(given, str) else str(given)
        return _cut(texts.scrub(_beginning(whole)), longest, len(whole))
    except Exception:  # noqa: BLE001  # an exception of a plugin may raise when it is told
        return concealments.WORD


def fields(given: str) -> str:
    """Return paths of fields, whose names may be secrets but do not announce one, without secrets."""
    return text(given) if not _ASSIGNING.isdisjoint(given) else forms.tokens(given, given.lower(), lambda _: texts.MARK)


def value(given: object) -> object:
    """Return a value that JSON can express, without secrets."""
    if given is None or isinstance(given, float) or (isinstance(given, int) and abs(given) < _WHOLE):
        return given
    if isinstance(given, str):
        return text(given)
    try:
        raw = orjson.dumps(given, default=text)
        return given if not texts.is_telling(raw.lower()) and len(raw) <= LONGEST else text(raw.decode())
    except TypeError:
        return text(given)


def findings(
    found: Sequence[Finding], lines: Sequence[str] = (), document: object = None
) -> tuple[list[Finding], list[str]]:
    """Return findings and other lines of one answer without secrets.

    Args:
        found: the findings.
        lines: what else the answer says.
        document: what they are about, where a name or a flag may say that a word they quote is a secret.
    """
    try:
        return _findings(found, lines, document)
    except Exception:  # noqa: BLE001  # an answer is due, whatever a strategy put into its findings
        hidden = [dataclasses.replace(each, value=None, message=concealments.WORD) for each in found]
        return hidden, [concealments.WORD] * len(lines)


def safely(redactor: Callable[[Record], Record]) -> Callable[[Record], Record]:
    """Return a redactor that conceals the body of a record where `redactor` fails."""

    def safe(record: Record) -> Record:
        try:
            return redactor(record)
        except Exception as error:  # noqa: BLE001  # the notice is due; the writer of the log reports the failure
            return concealments.concealed(record, f"its redaction failed with {type(error).__name__}")

    return safe


def _findings(found: Sequence[Finding], lines: Sequence[str], document: object) -> tuple[list[Finding], list[str]]:
    raw = orjson.dumps([[(each.field, each.value, each.message) for each in found], lines], default=str)
    walk = walks.Walk(secret_names.is_secret)
    try:
        walk = _through(document)
    except walks.TooMuchError:
        found = [_unquoting(each) for each in found]
    if not walk.echoes and not texts.is_telling(raw.lower()):
        return list(found), list(lines)
    shown = [_finding(each, walk) for each in found]
    said = [walk.text(_beginning(line)) for line in lines]
    echoes = walk.echoes
    if not echoes:
        return shown, said
    return [
        dataclasses.replace(each, value=echoes.value(each.value), message=echoes.text(each.message)) for each in shown
    ], [echoes.text(line) for line in said]


def _through(document: object) -> walks.Walk:
    """Return a walk that knows the secrets of a document, each text of which is read once."""
    if not texts.is_telling(orjson.dumps(document).lower()):
        return walks.Walk(secret_names.is_secret)
    walk = walks.Walk(secret_names.is_secret, most=_LARGEST)
    walk.value(document)
    return walk.unlimited()


def _unquoting(each: Finding) -> Finding:
    """Return a finding without the texts that it quotes: each may be a secret, which nothing nearby says."""
    if each.value is None or isinstance(each.value, bool | int | float):
        return each
    quoted = each.value if isinstance(each.value, str) else ""
    message = each.message.replace(quoted, texts.MARK) if quoted else each.message
    return dataclasses.replace(each, value=texts.MARK, message=message)


def _finding(each: Finding, walk: walks.Walk) -> Finding:
    conceal = by_field(each.field, walk) or walk.value
    message, field = walk.text(_beginning(each.message)), walk.text(_beginning(each.field))
    return dataclasses.replace(each, field=field, value=conceal(each.value), message=message)


def _beginning(whole: str) -> str:
    """Return as much of a text as is looked at, up to a whole word."""
    if len(whole) <= _READ:
        return whole
    start = whole[:_READ]
    blank = max(start.rfind(" ", _READ - _WORD), start.rfind("\n", _READ - _WORD), _READ - _WORD)
    return start[:blank]


def _cut(shown: str, longest: int, length: int) -> str:
    return shown if len(shown) <= longest else f"{shown[:longest]}… of {length} characters"
