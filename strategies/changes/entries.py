"""List entries that are kept: tolerations and gates that Muster added stay on the pods when an update lacks them.

Both lists are mutable while a job is suspended, so `restores` must not hold them as a whole. But `tolerations` is
atomic: where a runtime or a queue writes a toleration of its own, each of Trainer's applies would silently drop the one
that Muster added, and the resumed pods would wait for a node that refuses them. And `kubectl apply` of a file replaces
every list of a custom resource, so that pods would run without a seat. Therefore the hash of each added entry is
remembered, and an update that lacks the entry gets it again at the end of its list.

As in `restores`, users can write the memory at CREATE. They gain nothing by naming an entry there: the entry must be on
the stored object already, a toleration forbids nothing, and Muster's own gate is the only gate that counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import decoding, names, paths
from muster.strategies.documents.paths import Path

__all__ = ["added", "keep"]

_TOLERATIONS, _GATES = "tolerations", "schedulingGates"
_UNITS = (f".{_TOLERATIONS}", f".{_GATES}", f".{_TOLERATIONS}[{names.SEAT_GATE}]", f".{_GATES}[{names.SEAT_GATE}]")
_MOST = 64  # lists of one object, and entries of one list; the rest is ignored
_REASON = "Muster added this entry when the job was created; the update lacks it, and the pods need it"

Hash = Callable[[Any], str]
Memory = dict[str, list[str]]


def added(changes: Changes, earlier: Mapping[str, Any], digest: Hash) -> Memory:
    """Return the hashes of the entries that were added, by the field path of their list.

    Args:
        changes: the recorded changes.
        earlier: the memory of a first pass, before another webhook changed the object.
        digest: returns the hash of an entry.
    """
    found: Memory = {field: list(hashes) for field, hashes in earlier.items() if isinstance(hashes, list)}
    for change in changes:
        if change.unit.endswith(_UNITS) and change.op != "remove":
            field = change.unit.removesuffix(f"[{names.SEAT_GATE}]")
            entries = change.after if isinstance(change.after, list) else [change.after]
            found.setdefault(field, []).extend(digest(entry) for entry in entries)
    return found


def keep(old: Mapping[str, Any], changes: Changes, memory: Any, digest: Hash) -> None:
    """Add each remembered entry that the stored object has and the update lacks.

    Args:
        old: the stored object.
        changes: the changes of the incoming object.
        memory: what `added` returned; users can write it, so it may have any shape.
        digest: as for `added`.
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
        wanted = {hashed: each for each in stored if (hashed := digest(each)) in known}
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
