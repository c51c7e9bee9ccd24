"""Events of sessions and checkpoints as records of Muster's audit log: JSON lines in a chain of hashes.

The writer is that of the webhook (`muster.audit`), so `muster audit ls` and `verify` read both logs. An event is
written after the journal has it, on a thread of the writer, from a queue with a limit: no request waits for a disk.
While the file takes nothing, requests go on, and events go to standard output, in a chain of their own; the first one
is tried again, and the next one that the file takes says how many it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from muster.audit import record_schema, scanner
from muster.audit.record_schema import EventDetails, Record, RecordedObject
from muster.audit.sinks import RotatingFileSink
from muster.audit.writer import AuditWriter

__all__ = ["record", "writer"]

_LONGEST = 500  # characters of a detail
_TOLD = ("session_id", "project_id", "tinker_path", "source_path", "purpose")
_CREATES = frozenset({"session_created", "checkpoint_saved", "checkpoint_copied"})


def writer(path: Path) -> AuditWriter:
    """Return the writer of a log, which rotates its files.

    Raises:
        ValueError: when the folder of the file is missing, or it is not a file.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"--audit: {path}: its folder is missing, or it is one; name a file in a folder that exists")
    return AuditWriter([RotatingFileSink(path)])


def record(tenant: str, event: str, now: float, details: Mapping[str, Any]) -> Record:
    """Return the record of an event.

    Args:
        tenant: whose session or checkpoint it is.
        event: RESOURCE_ACTION.
        now: when, in seconds since 1970.
        details: what it was about, of which names and paths are kept.
    """
    told = {name: _clean(str(details[name])) for name in _TOLD if details.get(name) is not None}
    if isinstance(status := details.get("status"), Mapping):
        told["status"] = _clean(str(status.get("type")))  # its other words are the client's
    user = str(details.get("user") or tenant).removeprefix("tml:user:")
    kind = event.partition("_")[0].capitalize()
    name = told.get("tinker_path") or told.get("session_id") or ""
    about: RecordedObject = {"kind": kind, "namespace": _clean(tenant), "name": name}
    return {
        **record_schema.event(event, cast("EventDetails", told), about, datetime.fromtimestamp(now, UTC)),
        "user": {"username": _clean(user)},
        "operation": "CREATE" if event in _CREATES else "UPDATE",
    }


def _clean(text: str) -> str:
    """Return a text that people chose, shortened, without secrets."""
    return scanner.text(text)[:_LONGEST]  # before it is cut: half a token could not be recognised
