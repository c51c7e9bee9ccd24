"""Accounts: a decision as an audit record.

Pure: time and latency are arguments. The schema is in `muster.webhook.audit.records`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any

from muster.strategies.changes.changes import Change
from muster.strategies.documents import loose
from muster.strategies.documents.findings import Finding
from muster.strategies.documents.paths import ABSENT
from muster.webhook.admission.decisions import Decision
from muster.webhook.audit import records
from muster.webhook.audit.redaction import doors
from muster.webhook.audit.redaction.echoes import Echoes

__all__ = ["is_plain", "name", "names", "record"]

_LONGEST = 1024  # characters of a name; the API server takes 253
_MOST_GROUPS = 1000  # of one user; whoever reaches the port may send as many as fit into a body

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,252})", re.ASCII)


def record(decision: Decision, moment: datetime.datetime, latency: float) -> records.Record:
    """Build the audit record of a decision.

    Args:
        decision: what was decided.
        moment: when it was decided, with a time zone.
        latency: seconds from the body's arrival to the decision.
    """
    request, governor, strategy = decision.request, decision.governor, decision.strategy
    secrets = decision.secrets
    out: dict[str, Any] = {
        "schema": records.SCHEMA,
        "time": records.timestamp(moment),
        "uid": _text(request.uid),
        "user": {"username": _text(request.username), "groups": _groups(request.groups)},
        "operation": request.operation,
        "phase": request.phase,
        "object": _object(decision),
        "owner": _owner(decision),
        "runtime": None,
        "framework": name(governor.framework, secrets) if governor.framework else None,
        "strategy": None,
        "mode": decision.mode.value,
        "dryRun": request.dry_run,
        "decision": decision.verdict,
        "changes": [_change(change, secrets) for change in decision.changes],
        "findings": [_finding(finding) for finding in decision.findings],
        "latencyMicroseconds": round(latency * 1e6),
    }
    if governor.runtime is not None:
        runtime = governor.runtime
        out["runtime"] = {"kind": runtime.kind, "name": name(runtime.name, secrets), "source": runtime.source}
    if strategy is not None:
        chosen = strategy.strategy
        out["strategy"] = {"framework": chosen.framework, "version": chosen.version, "origin": strategy.origin}
    if decision.message:
        out["message"] = _text(decision.message, 16 * _LONGEST)
    return out  # type: ignore[return-value]  # built member by member above, checked by schemas.check in the tests


def names(decision: Decision) -> Iterator[str]:
    """Yield the names that a job's author gave to what a record is about, as they are."""
    metadata = loose.member(decision.request.document, "metadata")
    runtime = decision.governor.runtime
    given = (metadata.get("name"), metadata.get("generateName"), decision.governor.framework, runtime and runtime.name)
    yield from (each for each in given if isinstance(each, str) and each)


def is_plain(name: str) -> bool:
    """Whether Kubernetes takes a name, so that the object is found by it and it is shown in any case."""
    return _PLAIN.fullmatch(name) is not None


def name(given: object, secrets: Echoes) -> str:
    """Return the name of an object; one that Kubernetes would refuse, without the secrets of the object."""
    text = _text(given)
    return text if is_plain(text) else secrets.text(text)


def _object(decision: Decision) -> records.RecordedObject:
    request, metadata = decision.request, loose.member(decision.request.document, "metadata")
    out: records.RecordedObject = {
        "kind": request.kind,
        "namespace": _text(request.namespace),
        "name": name(request.name or metadata.get("name"), decision.secrets),
    }
    if metadata.get("generateName"):
        out["generateName"] = name(metadata["generateName"], decision.secrets)
    return out


def _owner(decision: Decision) -> records.Owner | None:
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
    return value if len(value) <= longest else doors.text(value, longest)


def _change(change: Change, secrets: Echoes) -> dict[str, Any]:
    out: dict[str, Any] = {"op": change.op, "path": change.path, "field": change.field}
    if change.before is not ABSENT:
        out["before"] = change.before
    if change.after is not ABSENT:
        out["after"] = change.after
    out["rule"], out["reason"] = change.rule, change.reason
    if secrets:
        out |= {key: secrets.value(out[key]) for key in ("path", "field", "before", "after", "reason") if key in out}
    return out


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "field": finding.field,
        "value": finding.value,
        "message": finding.message,
        "rule": finding.rule,
    }
