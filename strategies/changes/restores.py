"""Restore: an UPDATE that brings back what Muster replaced at CREATE gets Muster's value again.

Trainer re-applies a JobSet in full at every suspend and resume, and people re-apply their TrainJob files. Both send the
value from before Muster's change, in an immutable field; without a restore the API server would refuse the update, and
a running job could not even be suspended. The object itself remembers what was replaced: its annotation
`muster.dev/applied` holds, for each changed field, a hash of the value before.

Users can write the annotation at CREATE, so it is not trusted: only fields that are immutable anyway are restored.
Restoring any other could keep a queue from suspending the job; a user gains nothing by naming an immutable one. Fields
that stay mutable while a job is suspended are restored only where they are Muster's own: pod labels `muster.dev/*`, and
the tolerations and gates that Muster added.

One field is restored that Muster never changed. JobSet's defaulting webhook, called at CREATE only, completes the
volume claims (mjobset, v0.12.0: retention policy, empty status); Trainer's applies lack those defaults, and the CEL
rule takes that for an edit of an immutable field. Without this restore a job whose runtime has volume claims could be
neither resumed nor suspended.

Nothing is recomputed on UPDATE, neither by a newer Muster nor after a change of runtime or configuration. A value that
is neither the remembered one nor the stored one is an edit; it is left alone, so that its author gets the API server's
own answer.

List entries that are kept: both lists are mutable while a job is suspended, so they are not restored as a whole. But
`tolerations` is atomic: where a runtime or a queue writes a toleration of its own, each of Trainer's applies would
silently drop the one that Muster added, and the resumed pods would wait for a node that refuses them. And `kubectl
apply` of a file replaces every list of a custom resource, so that pods would run without a seat. Therefore the hash of
each added entry is remembered, and an update that lacks the entry gets it again at the end of its list. Users can write
the memory at CREATE, and gain nothing by naming an entry there: the entry must be on the stored object already, a
toleration forbids nothing, and Muster's own gate is the only gate that counts.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import operator
from collections.abc import Mapping
from typing import Any

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import decoding, names, paths
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
_TOLERATIONS, _GATES = "tolerations", "schedulingGates"
_UNITS = (f".{_TOLERATIONS}", f".{_GATES}", f".{_TOLERATIONS}[{names.SEAT_GATE}]", f".{_GATES}[{names.SEAT_GATE}]")
_MOST = 64  # lists of one object, and entries of one list; the rest is ignored
_REASON = "Muster added this entry when the job was created; the update lacks it, and the pods need it"

_Memory = dict[str, list[str]]


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
    if added := _added(changes, _kept(changes.original)):
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
        _keep_entries(old, changes, memory.get("kept"))
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


def _added(changes: Changes, earlier: Mapping[str, Any]) -> _Memory:
    """Return the hashes of the entries that were added, by the field path of their list.

    Args:
        changes: the recorded changes.
        earlier: the memory of a first pass, before another webhook changed the object.
    """
    found: _Memory = {field: list(hashes) for field, hashes in earlier.items() if isinstance(hashes, list)}
    for change in changes:
        if change.unit.endswith(_UNITS) and change.op != "remove":
            field = change.unit.removesuffix(f"[{names.SEAT_GATE}]")
            entries = change.after if isinstance(change.after, list) else [change.after]
            found.setdefault(field, []).extend(_hash(entry) for entry in entries)
    return found


def _keep_entries(old: Mapping[str, Any], changes: Changes, memory: Any) -> None:
    """Add each remembered entry that the stored object has and the update lacks.

    Args:
        old: the stored object.
        changes: the changes of the incoming object.
        memory: what `_added` returned; users can write it, so it may have any shape.
    """
    remembered = memory.items() if isinstance(memory, dict) else ()
    seen: set[Path] = set()  # a list has many names
    for field, hashes in itertools.islice(remembered, _MOST):
        stored_at, incoming_at = paths.locate(old, field), paths.locate(changes.document, field)
        if not isinstance(hashes, list) or stored_at is None or incoming_at is None or stored_at in seen:
            continue
        seen.add(stored_at)
        known = frozenset(each for each in hashes if isinstance(each, str))
        stored = [
            each for each in decoding.sequence(paths.lookup(old, stored_at))[:_MOST] if _is_kept(incoming_at, each)
        ]
        wanted = {hashed: each for each in stored if (hashed := _hash(each)) in known}
        for entry in _lacked(list(wanted.values()), changes.get(*incoming_at)):
            changes.append(incoming_at, entry, rule="core/restore", reason=_REASON)


def _lacked(wanted: list[Any], found: Any) -> list[Any]:
    """Return the entries that a list lacks; each of its entries is looked at once and then compared with few."""
    for entry in decoding.sequence(found):
        if not wanted:
            break
        if entry in wanted:
            wanted = [each for each in wanted if each != entry]
    return wanted


def _is_kept(path: Path, entry: Any) -> bool:
    if path[:2] != ("spec", "replicatedJobs"):
        return False
    return path[-1] == _TOLERATIONS or (path[-1] == _GATES and entry == {"name": names.SEAT_GATE})
