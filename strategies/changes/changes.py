"""The patch builder: every change is recorded once, with its rule and its reason.

A strategy never edits a document, and documents are never diffed: `Changes` keeps the original untouched, shows the
document as it stands now (`document`, copied only along the paths that changed) and records each operation as it is
made. The same record becomes the JSON Patch (RFC 6902), the audit record, `muster explain` and the memory from which
an UPDATE is restored. Fields that Muster does not know survive, because nothing decodes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from muster.strategies.documents import findings, paths
from muster.strategies.documents.paths import ABSENT, Absent, Path

__all__ = ["MOST", "Change", "Changes", "Operation"]

MOST = 50_000
"""Changes, and findings, that are kept; no document that Muster reads needs as many, and a strategy may never end."""

_MISSING = (None, ABSENT)
_JOBS = ("spec", "replicatedJobs")
_DEEP = 3  # steps to one of them
_STEP = re.compile(r"[.\[]")


class Operation(TypedDict, total=False):
    """One RFC 6902 operation; `value` is missing for `remove`."""

    op: str
    path: str
    value: Any


class Change(NamedTuple):
    """One recorded change.

    Attributes:
        op: RFC 6902 operation.
        path: JSON pointer into the document as it stood when the operation was recorded.
        field: the same place as a keyed field path.
        unit: field path of the atomic value around it; an UPDATE is restored by this unit.
        before: value before, `ABSENT` when there was none.
        after: value after, `ABSENT` when it was removed.
        rule: id of the rule that made the change, such as `torch/master-addr`.
        reason: why the change was made, one sentence for the person who wrote the job.
    """

    op: Literal["add", "replace", "remove"]
    path: str
    field: str
    unit: str
    before: Any
    after: Any
    rule: str
    reason: str

    @property
    def operation(self) -> Operation:
        """The change as a JSON Patch operation."""
        if self.after is ABSENT:
            return {"op": self.op, "path": self.path}
        return {"op": self.op, "path": self.path, "value": self.after}


class Changes:
    """The recorded changes of one document, in order, and the findings reported on the way.

    Args:
        document: the raw object; it is only read.

    Attributes:
        original: the raw object as it was given.
        document: the object as it stands now.
        findings: what was reported on the way.
        count: the number of changes, as `len` tells it too; it is asked for more often than any is made.
        known: what was found out about `document` as it stands now; each change empties it. One job alone may use it.
        keepers: further memories of that job, which each change empties too.
    """

    __slots__ = (
        *("_fresh", "_holder", "_outer", "_owned", "_parts", "_places", "_recorded", "_units"),
        *("count", "document", "findings", "keepers", "known", "original"),
    )

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.original = document
        self.document: Mapping[str, Any] = document
        self.findings: list[findings.Finding] = []
        self.count = 0
        self.known: dict[Any, Any] = {}
        self.keepers: list[dict[str, Any]] = []
        self._recorded: list[Change] = []
        self._places: list[Path] = []
        self._units: dict[str, Any] = {}
        self._fresh: list[str] = []  # units that `units` has not looked at
        self._outer: tuple[dict[str, Any], set[int]] = ({}, set())
        self._owned: dict[int, Any] = {}
        self._holder: _Holder | None = None
        self._parts: dict[Path, int] = {}

    def __iter__(self) -> Iterator[Change]:
        return iter(self._recorded)

    def __len__(self) -> int:
        return self.count

    def get(self, *path: str | int) -> Any:
        """Return the value at `path` as it stands now, or `ABSENT`."""
        return paths.lookup(self.document, path)

    def set(self, path: Path, value: Any, *, rule: str, reason: str) -> None:
        """Set the value at `path`: `add` where the document has none, `replace` where it has another one.

        Parents that are missing or null are created in the same operation. A value that equals the present one records
        nothing. `value` is copied, so the caller may go on changing its own.

        Raises:
            ValueError: the place does not exist: a parent is a scalar, or an index lies beyond the end of its list.
        """
        before = paths.lookup(self.document, path)
        if _same(before, value):
            return
        place = path
        if before is ABSENT:
            place = self._place(path)
            for member in reversed(path[len(place) :]):
                value = {member: value}
            before = ABSENT if len(place) == len(path) else paths.lookup(self.document, place)
        self._record("add" if isinstance(before, Absent) else "replace", place, before, value, rule, reason)

    def append(self, path: Path, entry: Any, *, rule: str, reason: str) -> None:
        """Add `entry` at the end of the list at `path`; a missing list is created, a present one is never rewritten.

        Raises:
            ValueError: the value there is not a list, or the place does not exist.
        """
        holder = self._holder
        entries = holder.node if holder and holder.path == path else paths.lookup(self.document, path)
        if isinstance(entries, list):
            self._record("add", (*path, len(entries)), ABSENT, entry, rule, reason)
        elif entries is None or isinstance(entries, Absent):
            self.set(path, [entry], rule=rule, reason=reason)
        else:
            raise ValueError(f"{paths.field(self.document, path)}: cannot append, because the value is not a list")

    def extend(self, path: Path, entries: Iterable[tuple[Any, str, str]]) -> None:
        """Add each (entry, rule, reason) at the end of the list at `path`, as `append` does with one.

        Raises:
            ValueError: as `append`.
        """
        rest = iter(entries)
        for entry, rule, reason in rest:
            self.append(path, entry, rule=rule, reason=reason)
            if paths.KEYS.isdisjoint(path):  # no name of what is around the entries changes with them
                self._extend(self._held(path), rest)

    def _extend(self, holder: _Holder, entries: Iterable[tuple[Any, str, str]]) -> None:
        """Record entries of a list that is there; what they have in common is worked out once."""
        node, where, pointer = holder.node, paths.written(holder.steps), paths.pointer(holder.path)
        unit = paths.written(holder.steps[: len(holder.unit)]) if holder.unit else ""
        made, first = [], len(node)
        for index, (entry, rule, reason) in enumerate(entries, first):
            if index - first + self.count >= MOST:
                raise _too_many()
            after = _copied(entry)
            node.append(after)
            field = where + paths.spell(node, holder.member, index)
            made.append(Change("add", f"{pointer}/{index}", field, unit or field, ABSENT, after, rule, reason))
        if made:
            self._keep(
                made, [(*holder.path, index) for index in range(first, len(node))], holder.before if unit else ABSENT
            )

    def remove(self, path: Path, *, rule: str, reason: str) -> None:
        """Remove the value at `path`; nothing is recorded when it is missing."""
        before = paths.lookup(self.document, path)
        if not isinstance(before, Absent):
            self._record("remove", path, before, ABSENT, rule, reason)

    def report(self, finding: findings.Finding) -> None:
        """Add a finding, usually a warning that says what could not be enforced; one beyond `MOST` is dropped."""
        if len(self.findings) < MOST:
            self.findings.append(finding)

    def state(self, path: Path) -> tuple[int, int]:
        """Return what changes whenever a change may have touched a replicated job or something outside of all of them.

        Args:
            path: of a replicated job, or () for none.
        """
        return self._parts.get(path, 0), self._parts.get((), 0)

    def patch(self) -> list[Operation]:
        """Return the changes as a JSON Patch: applied to `original` it gives `document`."""
        return [change.operation for change in self._recorded]

    def units(self) -> Mapping[str, Any]:
        """Return the original of each atomic value that was changed, by field path (`ABSENT` for a missing one).

        A value inside one that was already set as a whole is part of it and is not listed again.
        """
        before, lengths = self._outer
        for field in self._fresh:
            starts = lengths.intersection(map(re.Match.start, _STEP.finditer(field)))
            if not starts or not any(field[:start] in before for start in starts):
                before[field] = self._units[field]
                lengths.add(len(field))
        self._fresh.clear()
        return before

    @property
    def is_whole(self) -> bool:
        """Whether the recorded operations turn `original` into `document`; false if somebody wrote into `document`."""
        again = Changes(self.original)
        for change, place in zip(self._recorded, self._places, strict=True):
            _write(change.op, again._held(place[:-1]).node, place[-1], change.after)
        return _same(again.document, self.document)

    def _place(self, path: Path) -> Path:
        """Return `path` up to its first member that is missing or null: the new value contains the rest."""
        depth = len(path)
        while depth > 1 and paths.lookup(self.document, path[: depth - 1]) in _MISSING:
            depth -= 1
        parent, last = paths.lookup(self.document, path[: depth - 1]), path[depth - 1]
        if isinstance(last, str):
            fits = isinstance(parent, Mapping)
        else:
            fits = isinstance(parent, list) and 0 <= last <= len(parent)
        if not fits or not all(isinstance(part, str) for part in path[depth:]):
            raise ValueError(f"{paths.field(self.document, path)}: this place does not exist in the document")
        return path[:depth]

    def _record(  # noqa: PLR0913  # the members of a Change
        self, op: Literal["add", "replace", "remove"], place: Path, before: Any, after: Any, rule: str, reason: str
    ) -> None:
        if not place:
            raise ValueError("the document itself cannot be replaced or removed")
        if self.count >= MOST:
            raise _too_many()
        after, holder, last = _copied(after), self._held(place[:-1]), place[-1]
        original = holder.before if holder.unit else before
        step = paths.spell(holder.node, holder.member, last) if op == "remove" else ""  # from the entry's own name
        _write(op, holder.node, last, after)
        if isinstance(last, int):
            paths.changed(holder.node, last, shifted=op != "replace")
        if not paths.KEYS.isdisjoint(place):  # the names of what is around it may be others now
            self._holder = None
            self._rename(place)
            holder = holder if op == "remove" else self._held(place[:-1])
        steps = [*holder.steps, step or paths.spell(holder.node, holder.member, last)]
        field = paths.written(steps)
        unit = paths.written(steps[: len(holder.unit)]) if holder.unit else field
        change = Change(op, paths.pointer(place), field, unit, before, after, rule, reason)
        self._keep([change], [place], original)

    def _rename(self, place: Path) -> None:
        """Have the keys of lists read again that `place` is in; it is, or is inside of, the key of an entry."""
        for depth, part in enumerate(place):
            if isinstance(part, int) and isinstance(entries := paths.lookup(self.document, place[:depth]), list):
                paths.changed(entries, part, shifted=False)

    def _keep(self, changes: list[Change], places: list[Path], original: Any) -> None:
        """Keep changes of one object or list, with their places and the original of their units."""
        self._recorded += changes
        self._places += places
        self.count += len(changes)
        self.known.clear()
        for each in self.keepers:
            each.clear()
        self.keepers.clear()
        part = _part(places[0])
        self._parts[part] = self._parts.get(part, 0) + len(changes)
        for unit in {change.unit: None for change in changes}:
            if unit not in self._units:
                self._units[unit] = original
                self._fresh.append(unit)

    def _held(self, path: Path) -> _Holder:
        """Return the object or list at `path`, one that may be written to; the same is often asked for again."""
        last = self._holder
        if last is not None and last.path == path:
            return last
        unit = paths.enclosing(path)
        before = paths.lookup(self.document, unit) if unit else None
        around = last if last is not None and last.path == path[:-1] else None  # one step further in than the last one
        node: Any = around.node if around else None
        steps, member = (around.steps, around.member) if around else ([], "")
        if around is None:
            node = self.document = self._own(self.document)
        for part in path[-1:] if around else path:
            steps = [*steps, paths.spell(node, member, part)]
            child = node[part] = self._own(node[part])
            node, member = child, part if isinstance(part, str) else member
        holder = self._holder = _Holder(path, node, steps, member, unit, before)
        return holder

    def _own(self, node: Any) -> Any:
        if id(node) in self._owned:
            return node
        copy = node.copy() if isinstance(node, (dict, list)) else dict(node)
        self._owned[id(copy)] = copy
        return copy


class _Holder(NamedTuple):
    """The object or list in which the last change was made, with what all changes in it have in common.

    Attributes:
        path: where it is.
        node: itself, no longer part of the original.
        steps: its field path, step by step.
        member: the last member in its path.
        unit: the atomic value that it is or is inside of; None where each of its own values is one.
        before: the value of the unit before it was written to.
    """

    path: Path
    node: Any
    steps: list[str]
    member: str
    unit: Path | None
    before: Any


def _too_many() -> ValueError:
    return ValueError(f"there are more than {MOST} changes; change what many places have in common once")


def _write(op: str, node: Any, last: str | int, value: Any) -> None:
    if op == "remove":
        del node[last]
    elif isinstance(node, list) and isinstance(last, int) and op == "add":
        node.insert(last, value)
    else:
        node[last] = value


def _part(path: Path) -> Path:
    """Return the path of the replicated job that a path is in, () for none."""
    return path[:_DEEP] if path[: len(_JOBS)] == _JOBS and len(path) >= _DEEP else ()


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON; for Python, 1, 1.0 and True are equal."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return all(_same(value, other[key]) for key, value in one.items())
    return not isinstance(one, list) or all(map(_same, one, other))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner if type(inner) is str else _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, (list, tuple)) else value
