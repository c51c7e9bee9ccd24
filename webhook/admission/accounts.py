"""Accounts: a decision as an audit record.

Pure: time and latency are arguments. The schema is in `webhook.audit.records`.
"""

from __future__ import annotations

import datetime
from typing import Any

from strategies.changes.changes import Change
from strategies.documents.findings import Finding
from strategies.documents.paths import Absent
from webhook.admission.decisions import Decision
from webhook.audit import records
from webhook.audit.redaction import doors

__all__ = ["record"]

_LONGEST = 1024  # characters of a name; the API server takes 253


def record(decision: Decision, moment: datetime.datetime, latency: float) -> records.Record:
    """Build the audit record of a decision.

    Args:
        decision: what was decided.
        moment: when it was decided, with a time zone.
        latency: seconds from the body's arrival to the decision.
    """
    request, governor, strategy = decision.request, decision.governor, decision.strategy
    out: dict[str, Any] = {
        "schema": records.SCHEMA,
        "time": records.timestamp(moment),
        "uid": request.uid,
        "user": {"username": request.username, "groups": list(request.groups)},
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
        out["runtime"] = {"kind": runtime.kind, "name": runtime.name, "source": runtime.source}
    if strategy is not None:
        chosen = strategy.strategy
        out["strategy"] = {"framework": chosen.framework, "version": chosen.version, "origin": strategy.origin}
    if decision.message:
        out["message"] = _text(decision.message, 16 * _LONGEST)
    return out  # type: ignore[return-value]  # built member by member above, checked by schemas.check in the tests


def _object(decision: Decision) -> records.RecordedObject:
    request, metadata = decision.request, decision.request.document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    out: records.RecordedObject = {
        "kind": request.kind,
        "namespace": request.namespace,
        "name": _text(request.name or metadata.get("name")),
    }
    if metadata.get("generateName"):
        out["generateName"] = _text(metadata["generateName"])
    return out


def _owner(decision: Decision) -> records.Owner | None:
    if decision.governor.owner is None:
        return None
    metadata = decision.governor.owner.get("metadata") or {}
    return {"kind": "TrainJob", "name": _text(metadata.get("name")), "uid": _text(metadata.get("uid"))}


def _text(value: object, longest: int = _LONGEST) -> str:
    """Return a text as it is, unless it is longer than the API server would ever take; "" for anything else."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= longest else doors.text(value, longest)


def _change(change: Change) -> dict[str, Any]:
    out: dict[str, Any] = {"op": change.op, "path": change.path, "field": change.field}
    if not isinstance(change.before, Absent):
        out["before"] = change.before
    if not isinstance(change.after, Absent):
        out["after"] = change.after
    out["rule"] = change.rule
    out["reason"] = change.reason
    return out


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "field": finding.field,
        "value": finding.value,
        "message": finding.message,
        "rule": finding.rule,
    }
