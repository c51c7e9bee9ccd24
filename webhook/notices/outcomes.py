"""The results of one decision, in the form that tools for policy reports read.

Pure. Results have the members that Report of `openreports.io/v1alpha1` and PolicyReport of `wgpolicyk8s.io/v1alpha2`
share. They contain rules, fields and reasons; the values of fields stay in the audit log.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from muster.audit.record_schema import BOOKKEEPING, Record, RecordedChange, RecordedFinding, job_name
from muster.strategies.documents import names

__all__ = ["SOURCE", "WEIGHTS", "Result", "Said", "Subject", "said", "subject", "weight"]

Result: TypeAlias = dict[str, Any]

SOURCE = "muster"
WEIGHTS = range(3)
"""The weights of a record: it reports nothing, a correction or a problem."""

_SEVERITIES = {"pass": "info", "fail": "high", "warn": "medium", "error": "high"}
_RESULTS = 16  # results of one decision
_FIELDS = 3  # fields in a message
_LONGEST = 1000  # characters of a message
_NAME = 253  # characters of a name, the API server's limit


class Subject(NamedTuple):
    """The subject of a decision: one job in one phase of its admission."""

    kind: str
    name: str
    phase: str


@dataclass(frozen=True, slots=True)
class Said:
    """One decision as results, which are empty when there is nothing to report.

    Attributes:
        about: the job and the phase.
        at: seconds and nanoseconds since 1970.
        results: the results for the report.
    """

    about: Subject
    at: tuple[int, int]
    results: tuple[Result, ...]

    @property
    def replaces_errors_only(self) -> bool:
        """Whether it may be the second call of one admission, which finds the changes of the first call done."""
        return self.about.phase == "mutate" and not self.results


def subject(record: Record) -> Subject:
    """Return the job that a record is about; a job without a name yet is called by its generateName and a star."""
    return Subject(record["object"]["kind"], job_name(record)[:_NAME], record["phase"])


def weight(record: Record) -> int:
    """Return the weight of a record, one of `WEIGHTS`."""
    if record["decision"] == "error" or _findings(record):
        return 2
    if any(each["rule"] not in BOOKKEEPING for each in record["changes"]):
        return 1 if record["decision"] == "patched" else 2
    return 0


def said(record: Record) -> Said:
    """Return the results of a redacted record."""
    results = tuple(_result(record, *each) for _, each in zip(range(_RESULTS), _told(record), strict=False))
    moment = datetime.datetime.fromisoformat(record["time"])
    return Said(subject(record), (int(moment.timestamp()), moment.microsecond * 1000), results)


def _findings(record: Record) -> list[RecordedFinding]:
    """Return the findings that a report tells: no notes, and no misfits of mutation, which validation reports."""
    found = [each for each in record["findings"] if each["severity"] != "note"]
    return [each for each in found if record["decision"] != "unchanged" or each["rule"] != "core/shape"]


def _told(record: Record) -> Iterator[tuple[str, str, Sequence[str], str]]:
    """Yield outcome, rule, fields and message of each result, the worst first."""
    if record["decision"] == "error":
        yield "error", "core/error", (), record.get("message", "Muster could not decide")
    for each in sorted(_findings(record), key=lambda each: each["severity"] != "error"):
        outcome = "fail" if each["severity"] == "error" else "warn"
        yield outcome, each["rule"], (each["field"],), f"{each['field']}: {each['message']}"
    done = record["decision"] == "patched"
    for (rule, reason), fields in _by_rule(record["changes"]).items():
        more = f" and {len(fields) - _FIELDS} more" if len(fields) > _FIELDS else ""
        what = f"{', '.join(fields[:_FIELDS])}{more}"
        text = f"{what}: {reason}" if done else f"not corrected in mode {record['mode']}: {what}: {reason}"
        yield "pass" if done else "warn", rule, fields, text


def _by_rule(changes: Iterable[RecordedChange]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for each in changes:
        if each["rule"] not in BOOKKEEPING:
            found.setdefault((each["rule"], each["reason"]), []).append(each["field"])
    return found


def _result(record: Record, outcome: str, rule: str, fields: Sequence[str], message: str) -> Result:
    about, namespace = subject(record), record["object"]["namespace"]
    moment = datetime.datetime.fromisoformat(record["time"])
    shown, policy = _cut(message, _LONGEST), rule.partition("/")[0]
    identity = "\n".join((namespace, *about, rule, outcome, shown)).encode("utf-8", "backslashreplace")
    properties = {
        "resultID": hashlib.sha256(identity).hexdigest()[:16],
        "phase": about.phase,
        "decision": record["decision"],
        "mode": record["mode"],
        "uid": record["uid"],
    }
    if fields:
        properties["fields"] = _cut(", ".join(fields), _LONGEST)
    if record["framework"]:
        properties["framework"] = _cut(record["framework"], _NAME)
    return {
        "source": SOURCE,
        "policy": _cut(policy, _NAME),
        "rule": _cut(rule, _NAME),
        "category": "Distributed training",
        "severity": _SEVERITIES[outcome],
        "timestamp": {"seconds": int(moment.timestamp()), "nanos": moment.microsecond * 1000},
        "result": outcome,
        "scored": outcome != "warn",
        "resources": [
            {
                "apiVersion": names.API_VERSIONS.get(about.kind, ""),
                "kind": about.kind,
                "namespace": namespace,
                "name": about.name,
            }
        ],
        "message": shown,
        "properties": properties,
    }


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
