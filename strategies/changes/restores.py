"""Restore: an UPDATE that brings back what Muster replaced at CREATE gets Muster's value again.

Trainer re-applies a JobSet in full at every suspend and resume, and people re-apply their TrainJob files. Both send the
value from before Muster's change, in an immutable field; without a restore the API server would refuse the update, and
a running job could not even be suspended. The object itself remembers what was replaced: its annotation
`muster.dev/applied` holds, for each changed field, a hash of the value before.

Users can write the annotation at CREATE, so it is not trusted: only fields that are immutable anyway are restored.
Restoring any other could keep a queue from suspending the job; a user gains nothing by naming an immutable one. Fields
that stay mutable while a job is suspended are restored only where they are Muster's own: pod labels `muster.dev/*`, and
the tolerations and gates that Muster added (`entries` says why).

One field is restored that Muster never changed. JobSet's defaulting webhook, called at CREATE only, completes the
volume claims (mjobset, v0.12.0: retention policy, empty status); Trainer's applies lack those defaults, and the CEL
rule takes that for an edit of an immutable field. Without this restore a job whose runtime has volume claims could be
neither resumed nor suspended.

Nothing is recomputed on UPDATE, neither by a newer Muster nor after a change of runtime or configuration. A value that
is neither the remembered one nor the stored one is an edit; it is left alone, so that its author gets the API server's
own answer.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
from collections.abc import Mapping
from typing import Any

from muster.strategies.changes import entries
from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names, paths
from muster.strategies.documents.paths import ABSENT, Absent, Path

__all__ = ["APPLIED_RULE", "MAX_TEXT", "MOST_FIELDS", "applied", "is_certain", "keep_memory", "remember", "restore"]

MAX_TEXT = 256 * 1024
"""Characters of a memory: what Kubernetes allows all annotations of an object together (TotalAnnotationSizeLimitB in
apimachinery `pkg/api/validation/objectmeta.go`). A longer one is neither written nor read; `MOST_FIELDS` of the longest
paths have 130 thousand."""

APPLIED_RULE = "core/applied"
"""Rule of the one change that is Muster's own bookkeeping: its memory of the job."""

_ABSENT_HASH = "-"
_RIGHT = "right"
_ANNOTATION = ("metadata", "annotations", names.APPLIED_ANNOTATION)
_RULE = "core/restore"
_CLAIMS = ("spec", "volumeClaimPolicies")
_WRITTEN = json.JSONEncoder(separators=(",", ":")).encode
_CANONICAL = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
_OWN_PREFIX = "muster.dev/"
_MAX_DIGITS = 18
MOST_FIELDS = 256
"""Fields of one memory; an annotation holds thousands, and each costs two searches on every update."""

# Immutable on a TrainJob (CEL, trainer) or a JobSet (vjobset and CEL, v0.12.0), and mutable members inside.
_FROZEN = frozenset(
    {
        *("trainer", "initializer", "runtimeRef"),
        *("replicatedJobs", "network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies"),
    }
)
_MUTABLE = frozenset({"annotations", "labels", "nodeSelector", "tolerations", "schedulingGates"})


def remember(changes: Changes, framework: str, version: str, *, certain: bool = False) -> None:
    """Annotate the object with the strategy, its version and the changed fields, if any changed.

    Args:
        changes: all changes of the object.
        framework: of the strategy.
        version: of the strategy.
        certain: whether the object tells ranks and devices for certain, so that what is measured can be compared.

    Raises:
        ValueError: more fields changed than an update can restore, so the job could not be suspended.
    """
    units = changes.units()
    if not units:
        return
    if len(units) > MOST_FIELDS:
        raise ValueError(
            f"Muster would change {len(units)} fields, and an update can restore at most {MOST_FIELDS} of one object;"
            " give the job fewer replicated jobs or containers"
        )
    earlier = applied(changes.original).get("fields", {})  # of a first pass, before another webhook changed the object
    fields = {**earlier, **{field: _hash(value) for field, value in units.items() if field not in earlier}}
    if len(fields) > MOST_FIELDS:  # the first pass was not Muster's
        fields = {field: _hash(value) for field, value in units.items()}
    note = {"strategy": framework, "version": version, "fields": fields}
    if certain:
        note["predicted"] = _RIGHT
    if added := entries.added(changes, _kept(changes.original), _hash):
        note["kept"] = added
    text = _WRITTEN(note)  # in the order of recording: restored entries keep theirs
    if len(text) > MAX_TEXT:
        raise ValueError(
            f"the memory of what Muster would change has {len(text)} characters, and an update reads at most"
            f" {MAX_TEXT}; give the job's parts shorter names"
        )
    reason = "remembers what Muster changed, so that applying the original again does not undo it"
    changes.set(_ANNOTATION, text, rule=APPLIED_RULE, reason=reason)


def applied(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `remember` wrote, empty when the annotation is missing, too long or cannot be read."""
    text = paths.lookup(document, _ANNOTATION)
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return {}
    try:
        note = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) and isinstance(note.get("fields"), dict) else {}


def is_certain(annotations: Mapping[str, str]) -> bool:
    """Whether Muster found, when the object was created, that it tells ranks and devices for certain.

    An author can say so of an object in which Muster changes nothing, and nobody by an update.
    """
    return applied({"metadata": {"annotations": annotations}}).get("predicted") == _RIGHT


def _kept(document: Mapping[str, Any]) -> dict[str, Any]:
    memory = applied(document).get("kept")
    return memory if isinstance(memory, dict) else {}


def restore(old: Mapping[str, Any], changes: Changes) -> None:
    """Restore each remembered field that the update sets to its value from before Muster's change.

    Args:
        old: the stored object; its annotation is the memory, whatever the update carries.
        changes: the changes of the incoming object.
    """
    if old.get("spec") != changes.document.get("spec"):  # most updates touch metadata only
        memory = applied(old)
        seen: set[tuple[Path | None, Path | None]] = set()  # a place has many names, and a value may be large
        late: list[tuple[Path, Path | None, Any]] = []
        for field, digest in itertools.islice(memory.get("fields", {}).items(), MOST_FIELDS):
            stored_at, incoming_at = named = paths.locate(old, field), paths.locate(changes.document, field)
            if named in seen:
                continue
            seen.add(named)
            if incoming_at and _renames(old, changes, stored_at, incoming_at):
                late.append((incoming_at, stored_at, digest))
            else:
                _restore_field(old, changes, stored_at, incoming_at, digest)
        for incoming_at, stored_at, digest in sorted(late, key=operator.itemgetter(0), reverse=True):
            _restore_field(old, changes, stored_at, incoming_at, digest)
        entries.keep(old, changes, memory.get("kept"), _hash)
        _restore_claims(old, changes)
    _keep(old, changes)


def keep_memory(old: Mapping[str, Any], changes: Changes) -> None:
    """Restore the memory alone, at a cost that does not grow with the object; one of any shape is taken.

    Args:
        old: the stored object.
        changes: the changes of the incoming object.
    """
    around = (changes.get(*_ANNOTATION[:depth]) for depth in (1, 2))
    if all(found is None or isinstance(found, Mapping | Absent) for found in around):
        _keep(old, changes)


def _keep(old: Mapping[str, Any], changes: Changes) -> None:
    note = paths.lookup(old, _ANNOTATION)
    if isinstance(note, Absent):
        changes.remove(_ANNOTATION, rule=_RULE, reason="only Muster writes this annotation, when a job is created")
    else:
        changes.set(_ANNOTATION, note, rule=_RULE, reason="Muster's memory of the job keeps its stored value")


def _renames(old: Mapping[str, Any], changes: Changes, stored_at: Path | None, incoming_at: Path) -> bool:
    """Whether a restore gives entries of a list other names or indexes, those behind the place too.

    Where these are restored from the end of the list, the others are where they were, and none is looked for again.
    """
    stored = ABSENT if stored_at is None else paths.lookup(old, stored_at)
    named = [_keys(each) for each in (stored, paths.lookup(changes.document, incoming_at))]
    return not paths.KEYS.isdisjoint(incoming_at) or (isinstance(incoming_at[-1], int) and named[0] != named[1])


def _keys(entry: Any) -> Any:
    return {key: entry[key] for key in paths.KEYS & entry.keys()} if isinstance(entry, Mapping) else entry


def _restore_field(
    old: Mapping[str, Any], changes: Changes, stored_at: Path | None, incoming_at: Path | None, digest: Any
) -> None:
    stored = ABSENT if stored_at is None else paths.lookup(old, stored_at)
    incoming = ABSENT if incoming_at is None else paths.lookup(changes.document, incoming_at)
    place = stored_at or incoming_at or ()
    if incoming == stored or not _is_given_back(place, stored) or digest not in _hashes(incoming, place):
        return
    reason = "the update carries the value that Muster replaced at creation; the field keeps its stored value"
    if isinstance(stored, Absent):
        if incoming_at is not None:
            changes.remove(incoming_at, rule=_RULE, reason=reason)
    elif incoming_at is not None and not isinstance(incoming, Absent):
        changes.set(incoming_at, stored, rule=_RULE, reason=reason)
    elif stored_at is not None:
        _put_back(old, changes, stored_at, stored, reason)


def _restore_claims(old: Mapping[str, Any], changes: Changes) -> None:
    stored, incoming = paths.lookup(old, _CLAIMS), paths.lookup(changes.document, _CLAIMS)
    if not isinstance(stored, list) or not isinstance(incoming, list) or stored == incoming:
        return
    if list(map(_defaulted, stored)) == list(map(_defaulted, incoming)):
        reason = "the update lacks only the defaults that JobSet's own webhook wrote when the job was created"
        changes.set(_CLAIMS, stored, rule=_RULE, reason=reason)


def _defaulted(policy: Any) -> Any:
    """Return the policy as JobSet's defaulting webhook writes it at CREATE."""
    if not isinstance(policy, Mapping) or not isinstance(policy.get("templates"), list):
        return policy
    templates = [{"status": {}, **each} if isinstance(each, Mapping) else each for each in policy["templates"]]
    return {"retentionPolicy": {"whenDeleted": "Delete"}, **policy, "templates": templates}


def _is_given_back(path: Path, stored: Any) -> bool:
    """Whether the API server holds the place immutable, or the place holds only Muster's own labels."""
    if _is_frozen(path):
        return True
    own = {path[-1]: stored} if path[-2:-1] == ("labels",) else stored
    labels = path[:2] in (("spec", "replicatedJobs"), ("metadata", "labels")) and "labels" in path[-2:]
    return labels and isinstance(own, Mapping) and all(str(key).startswith(_OWN_PREFIX) for key in own)


def _is_frozen(path: Path) -> bool:
    return len(path) > 1 and path[0] == "spec" and path[1] in _FROZEN and _MUTABLE.isdisjoint(path)


def _put_back(old: Mapping[str, Any], changes: Changes, stored_at: Path, stored: Any, reason: str) -> None:
    """Add a member or an entry that the update lacks; an update that lacks the parent too is an edit.

    Labels are restored with the metadata around them, because a template without other labels has no metadata.
    """
    depth = _depth(stored_at)
    parent_at = paths.locate(changes.document, paths.field(old, stored_at[:-depth]))
    parent = ABSENT if parent_at is None else paths.lookup(changes.document, parent_at)
    last = stored_at[-1]
    if parent_at is not None and isinstance(last, str) and isinstance(parent, Mapping):
        if all(_may_hold(changes, (*parent_at, *stored_at[-depth:-step])) for step in range(1, depth)):
            changes.set((*parent_at, *stored_at[-depth:]), stored, rule=_RULE, reason=reason)
    elif parent_at is not None and isinstance(last, int) and isinstance(parent, list):
        changes.append(parent_at, stored, rule=_RULE, reason=reason)


def _depth(path: Path) -> int:
    """How many of the last steps an update may lack together: one, and for labels all of them from the metadata on."""
    for depth in (2, 3):
        if path[-depth:][:2] == ("metadata", "labels"):
            return depth
    return 1


def _may_hold(changes: Changes, path: Path) -> bool:
    found = paths.lookup(changes.document, path)
    return found is None or isinstance(found, Absent | Mapping)


def _hashes(value: Any, path: Path) -> tuple[str, ...]:
    """Return the hash of a value and, for an amount, of its other spelling: JobSet's own webhook writes 1 as "1"."""
    other = value
    if "resources" in path and type(value) is int:
        other = str(value)
    elif "resources" in path and isinstance(value, str) and value.isdecimal() and len(value) <= _MAX_DIGITS:
        other = int(value)
    return (_hash(value),) if other is value else (_hash(value), _hash(other))


def _hash(value: Any) -> str:
    if isinstance(value, Absent):
        return _ABSENT_HASH
    text = _CANONICAL(value)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
