"""Answers: a decision as an AdmissionResponse.

Each warning is one line, because the API server drops one that contains a control character. Length and number are
limited so that the API server passes on all of them: 4,096 characters together (k8s.io/apiserver,
endpoints/filters/warning.go). Kubernetes recommends 120 characters for one, but a field path inside a JobSet alone has
80. Audit annotations are limited to the 10 kB that the API server stores. A denial lists every error with its field
path, in the message for people and as `causes` for programs. Warnings and errors go to the author of the job, and may
quote the job, without tokens of a known form; annotations go to the API server's audit log, and have what is `known`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence

import orjson
from msgspec import structs

from muster.audit import known, scanner
from muster.strategies.changes import restores
from muster.strategies.changes.changes import Change
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding, Severity
from muster.webhook.admission import reviews
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Mode

__all__ = ["MAX_AUDIT", "MAX_WARNING", "answer", "quotable", "warnings", "without_tokens"]

MAX_WARNING = 190
"""Maximum characters of one warning."""
MAX_AUDIT = 10_000
"""Maximum bytes of all audit annotations together."""
_MAX_WARNINGS = 20
_MAX_ERRORS = 100
_MAX_LINE = 2048  # characters of one error
_MAX_MESSAGE = 48 * 1024  # bytes of all errors together, as an answer has them: in its message and among its causes
_WIDEST = 4  # bytes in JSON of a character that can be printed
_MAX_AUDIT_CHANGES = 400  # more fields than fit into an annotation


def answer(decision: Decision) -> reviews.Response:
    """Build the AdmissionResponse of a decision."""
    audit = _audit(decision)
    decision = without_tokens(decision)
    uid, shown = decision.request.uid, _warnings(decision)
    if decision.verdict == "error" and not decision.allowed:
        message = f"{decision.message}; nothing was changed. Tell your platform team, or wait and try again"
        return reviews.deny(uid, message, code=500, reason="InternalError", audit=audit)
    if decision.verdict == "denied":
        return _denial(decision, shown, audit)
    if decision.verdict == "patched":
        operations = decision.patch or orjson.dumps(decision.changes.patch())
        return reviews.patch(uid, operations, warnings=shown, audit=audit)
    return reviews.allow(uid, warnings=shown, audit=audit)


def warnings(decision: Decision) -> list[str]:
    """Return the lines that kubectl shows: findings, and in mode `warn` also the changes that were not made."""
    return _warnings(without_tokens(decision))


def without_tokens(decision: Decision) -> Decision:
    """Return a decision whose findings and message quote no token of a known form; the changes stay as they are."""
    if not (decision.findings or decision.message):
        return decision
    found = tuple(map(quotable, decision.findings))
    return structs.replace(decision, findings=found, message=scanner.text(decision.message))


def quotable(found: Finding) -> Finding:
    """Return a finding without tokens of a known form."""
    field, message, value = scanner.text(found.field), scanner.text(found.message), scanner.value(found.value)
    if (field, message, value) == (found.field, found.message, found.value):
        return found
    return dataclasses.replace(found, field=field, message=message, value=value)


def _warnings(decision: Decision) -> list[str]:
    if decision.mode is Mode.AUDIT:
        return []
    shown = [
        found
        for found in decision.findings
        if found.severity is Severity.WARNING or (decision.mode is Mode.WARN and found.severity is Severity.ERROR)
        if decision.verdict != "unchanged" or found.rule != "core/shape"
    ]
    lines, hidden = [_shown(found) for found in shown], sum(found.stands_for - 1 for found in shown)
    if decision.mode is Mode.WARN:
        would = [_would(change) for change in decision.changes if change.rule != restores.APPLIED_RULE]
        lines += map(scanner.text, would)
    if decision.verdict == "error":
        lines.append(f"Muster let this pass without enforcing anything: {decision.message}")
    return _limited(lines, hidden)


def _shown(found: Finding) -> str:
    return f"Muster would refuse: {found}" if found.severity is Severity.ERROR else str(found)


def _would(change: Change) -> str:
    return f"Muster would {change.op} {change.field}: {change.reason}"


def _limited(lines: Sequence[str], hidden: int) -> list[str]:
    """Return the first lines; `hidden` is how many more things than lines there are."""
    kept = [_printable(line[: MAX_WARNING + 1]) for line in lines[:_MAX_WARNINGS]]
    kept = [line if len(line) <= MAX_WARNING else f"{line[: MAX_WARNING - 1]}…" for line in kept]
    if len(lines) > _MAX_WARNINGS:
        kept.append(f"and {len(lines) - _MAX_WARNINGS + hidden} more; see muster check or the audit log")
    return kept


def _denial(decision: Decision, shown: Sequence[str], audit: dict[str, str]) -> reviews.Response:
    """Refuse with every error; kubectl prints only the causes, so each names its field, Muster and the rule."""
    request, found = decision.request, findings.errors(decision.findings)
    told = _fitting(found[:_MAX_ERRORS])
    lines = [_line(each) for each in told]
    causes = [_cause(each) for each in told]
    count = sum(each.stands_for for each in found)
    if count > len(told):
        lines.append(f"and {count - len(told)} more; see muster check or the audit log")
    message = lines[0] if len(lines) == 1 else f"{count} errors:\n" + "\n".join(f"- {line}" for line in lines)
    details = {
        "name": known.name(request.name) or "without a name yet",
        "kind": request.kind,
        "causes": causes,
    }
    return reviews.deny(request.uid, message, code=422, reason="Invalid", details=details, warnings=shown, audit=audit)


def _fitting(found: Sequence[Finding]) -> Sequence[Finding]:
    """Return the first findings, at least one, whose lines fit together."""
    sizes = itertools.accumulate(_size(each) for each in found)
    return found[: max(1, sum(size <= _MAX_MESSAGE for size in sizes))]


def _size(finding: Finding) -> int:
    """Return the bytes of JSON that an error takes in an answer."""
    told = [_line(finding), _cause(finding)]
    try:
        return len(orjson.dumps(told))
    except orjson.JSONEncodeError:  # half a surrogate pair, which is replaced later
        return len(json.dumps(told))


def _line(finding: Finding) -> str:
    line = str(finding)
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1]}…"


def _cause(finding: Finding) -> dict[str, str]:
    missing = finding.value is None
    text = _line(finding).removeprefix(f"{finding.field}: ")
    return {
        "field": finding.field,
        "message": f"{'Required value' if missing else 'Invalid value'}: {text} (muster {finding.rule})",
        "reason": "FieldValueRequired" if missing else "FieldValueInvalid",
    }


def _audit(decision: Decision) -> dict[str, str]:
    if decision.verdict == "skipped":
        return {}
    notes = {"decision": decision.verdict, "mode": decision.mode.value}
    if decision.strategy is not None:
        notes["strategy"] = _cut(str(decision.strategy))
    if len(decision.changes):
        some = list(itertools.islice(decision.changes, _MAX_AUDIT_CHANGES))
        notes["changes"] = _cut(", ".join(f"{known.field(change.field)} ({change.rule})" for change in some))
    if decision.message:
        notes["error"] = _cut(known.text(decision.message))
    return notes


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def _cut(text: str) -> str:
    """Shorten a text to a quarter of the limit, measured as JSON."""
    limit, text = MAX_AUDIT // 4, _printable(text)
    if _WIDEST * len(text) + 2 <= limit or len(orjson.dumps(text)) <= limit:
        return text
    text = text[:limit]
    while len(orjson.dumps(text)) > limit - len("…".encode()):
        text = text[: len(text) * 9 // 10]
    return f"{text}…"
