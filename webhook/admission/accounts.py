"""Accounts: a decision as an audit record.

Pure: time and latency are arguments. The record has the values of the job as they are; `muster.audit.known` and
`muster.audit.scanner` make of it what is written. The schema is in `muster.audit.record_schema`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from muster.audit import record_schema
from muster.strategies.changes.changes import Change
from muster.strategies.documents import decoding
from muster.strategies.documents.findings import Finding
from muster.strategies.documents.paths import ABSENT
from muster.webhook.admission.decisions import Decision

__all__ = ["record"]

_LONGEST = 1024  # characters of a name; the API server takes 253
_MOST_GROUPS = 1000  # of one user; whoever reaches the port may send as many as fit into a body


def record(decision: Decision, moment: datetime.datetime, latency: float) -> record_schema.Record:
    """Build the audit record of a decision.

    Args:
        decision: what was decided.
        moment: when it was decided, with a time zone.
        latency: seconds from the body's arrival to the decision.
    """
    request, governor, strategy = decision.request, decision.governor, decision.strategy
    out: dict[str, Any] = {
        "schema": record_schema.SCHEMA,
        "time": record_schema.timestamp(moment),
        "uid": _text(request.uid),
        "user": {"username": _text(request.username), "groups": _groups(request.groups)},
        "operation": request.operation,
        "phase": request.phase,
        "object": _object(decision),
        "owner": _owner(decision),
        "runtime": None,
        "framework": _text(governor.framework) if governor.framework else None,
        "strategy": None,
        "mode": decision.mode.value,
        "dryRun": request.dry_run,
        "decision": decision.verdict,
        "changes": [_change(change) for change in decision.changes],
        "findings": [_finding(finding) for finding in decision.findings],
        "latencyMicroseconds": round(latency * 1e6),
    }
    if governor.runtime is not None:
        runtime = governor.runtime
        out["runtime"] = {"kind": runtime.kind, "name": _text(runtime.name), "source": runtime.source}
    if strategy is not None:
        chosen = strategy.strategy
        out["strategy"] = {"framework": chosen.framework, "version": chosen.version, "origin": strategy.origin}
    if decision.message:
        out["message"] = _text(decision.message, 16 * _LONGEST)
    return out  # type: ignore[return-value]  # built member by member above, checked by schemas.check in the tests


def _object(decision: Decision) -> record_schema.RecordedObject:
    request, metadata = decision.request, decoding.member(decision.request.document, "metadata")
    out: record_schema.RecordedObject = {
        "kind": request.kind,
        "namespace": _text(request.namespace),
        "name": _text(request.name or metadata.get("name")),
    }
    if metadata.get("generateName"):
        out["generateName"] = _text(metadata["generateName"])
    return out


def _owner(decision: Decision) -> record_schema.Owner | None:
    if decision.governor.owner is None:
        return None
    metadata = decision.governor.owner.get("metadata") or {}
    return {"kind": "TrainJob", "name": _text(metadata.get("name")), "uid": _text(metadata.get("uid"))}


def _groups(given: Sequence[str]) -> list[str]:
    kept = [_text(group) for group in given[:_MOST_GROUPS]]
    return kept if len(given) <= _MOST_GROUPS else [*kept, f"and {len(given) - _MOST_GROUPS:,} more"]


def _text(value: object, longest: int = _LONGEST) -> str:
    """Return a text as it is, unless it is longer than the API server would ever take; "" for anything else."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= longest else f"{value[:longest]}… of {len(value)} characters"


def _change(change: Change) -> dict[str, Any]:
    out: dict[str, Any] = {"op": change.op, "path": change.path, "field": change.field}
    if change.before is not ABSENT:
        out["before"] = change.before
    if change.after is not ABSENT:
        out["after"] = change.after
    out["rule"], out["reason"] = change.rule, change.reason
    return out


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "field": finding.field,
        "value": finding.value,
        "message": finding.message,
        "rule": finding.rule,
    }
