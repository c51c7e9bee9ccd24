"""Restore: an UPDATE that brings back what Muster replaced at CREATE gets Muster's value again.

Trainer re-applies a JobSet in full at every suspend and resume, and people re-apply their TrainJob files. Both send the
value from before Muster's change, on a field that is immutable; without restore the API would refuse, and a running job
could not even be suspended. What was replaced is remembered on the object itself: the annotation `muster.dev/applied`
holds, for each changed field, a hash of the value before.

Nothing is recomputed on UPDATE: not by a newer Muster, not after a changed runtime or configuration. A value that is
neither the remembered one nor the stored one is somebody's edit; it is left alone, and the API's own answer reaches them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from strategies import names, paths
from strategies.changes import Changes
from strategies.paths import ABSENT, Absent

__all__ = ["applied", "remember", "restore"]

_ABSENT_HASH = "-"
_ANNOTATION = ("metadata", "annotations", names.APPLIED_ANNOTATION)
_RULE = "core/restore"


def remember(changes: Changes, framework: str, version: str) -> None:
    """Annotate the object with the strategy, its version and the fields changed; nothing when nothing changed."""
    units = changes.units()
    if not units:
        return
    note = {
        "strategy": framework,
        "version": version,
        "fields": {field: _hash(value) for field, value in units.items()},
    }
    text = json.dumps(note, separators=(",", ":"))  # in the order of recording: restored entries keep theirs
    reason = "remembers what was changed, so that a re-apply of the original does not undo it"
    changes.set(_ANNOTATION, text, rule="core/applied", reason=reason)


def applied(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the note of `remember`, empty when there is none or when it is not ours to read."""
    text = paths.lookup(document, _ANNOTATION)
    if not isinstance(text, str):
        return {}
    try:
        note = json.loads(text)
    except ValueError:
        return {}
    return note if isinstance(note, dict) and isinstance(note.get("fields"), dict) else {}


def restore(old: Mapping[str, Any], changes: Changes) -> None:
    """Give back the stored value of every remembered field that the update would set to its value before.

    Args:
        old: the stored object; its annotation is the memory, whatever the update brings.
        changes: of the incoming object.
    """
    fields = applied(old).get("fields", {})
    for field, digest in fields.items():
        _restore_field(old, changes, field, digest)
    if fields and isinstance(changes.get(*_ANNOTATION), Absent):
        reason = "the update left out Muster's memory of the job"
        changes.set(_ANNOTATION, paths.lookup(old, _ANNOTATION), rule=_RULE, reason=reason)


def _restore_field(old: Mapping[str, Any], changes: Changes, field: str, digest: str) -> None:
    stored_at = paths.locate(old, field)
    stored = ABSENT if stored_at is None else paths.lookup(old, stored_at)
    incoming_at = paths.locate(changes.document, field)
    incoming = ABSENT if incoming_at is None else paths.lookup(changes.document, incoming_at)
    if incoming == stored or _hash(incoming) != digest:
        return
    reason = "the update carries the value that was replaced when the job was created; it stays as it was stored"
    if isinstance(stored, Absent):
        if incoming_at is not None:
            changes.remove(incoming_at, rule=_RULE, reason=reason)
    elif incoming_at is not None:
        changes.set(incoming_at, stored, rule=_RULE, reason=reason)
    elif stored_at is not None:
        _put_back(changes, stored_at, field, stored, reason)


def _put_back(changes: Changes, stored_at: paths.Path, field: str, stored: Any, reason: str) -> None:
    """Add an entry of a keyed list, or a member whose parent is missing, where the update has none."""
    last = stored_at[-1]
    if isinstance(last, str):
        changes.set(stored_at, stored, rule=_RULE, reason=reason)
        return
    container = paths.locate(changes.document, field[: field.rindex("[")])
    if container is not None:
        changes.append(container, stored, rule=_RULE, reason=reason)


def _hash(value: Any) -> str:
    if isinstance(value, Absent):
        return _ABSENT_HASH
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
