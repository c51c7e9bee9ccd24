"""The recording patch builder: every change is written down once, with its rule and its reason.

A strategy never edits a document and nothing is ever diffed: `Changes` keeps the original untouched, shows the
document as it stands now (`document`, copied only along the paths that changed) and records each operation as it is
made. The same record becomes the JSON Patch (RFC 6902), the audit record, `muster explain` and the memory that lets an
UPDATE be restored. Fields that Muster has never heard of survive, because nothing decodes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from strategies import findings, paths
from strategies.paths import ABSENT, Absent, Path

__all__ = ["Change", "Changes", "Operation"]


class Operation(TypedDict, total=False):
    """One RFC 6902 operation; `value` is missing for `remove`."""

    op: str
    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class Change:
    """One recorded change.

    Attributes:
        op: RFC 6902 operation.
        path: JSON pointer into the document as it stood when the operation was recorded.
        field: the same place as a keyed field path.
        unit: field path of the atomic value around it, by which an UPDATE is restored.
        before: value before, `ABSENT` when there was none.
        after: value after, `ABSENT` when it was removed.
        rule: what made the change, `torch/master-addr`.
        reason: why, one sentence for the person who wrote the job.
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
        if isinstance(self.after, Absent):
            return {"op": self.op, "path": self.path}
        return {"op": self.op, "path": self.path, "value": self.after}


class Changes:
    """Recorded changes of one document, in order, and the findings made on the way.

    Args:
        document: the raw object; it is read and never written.
    """

    __slots__ = ("_copied", "_recorded", "document", "findings", "original")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.original = document
        self.document: Mapping[str, Any] = document
        self.findings: list[findings.Finding] = []
        self._recorded: list[Change] = []
        self._copied: dict[int, Any] = {}

    def __iter__(self) -> Iterator[Change]:
        return iter(self._recorded)

    def __len__(self) -> int:
        return len(self._recorded)

    def get(self, *path: str | int) -> Any:
        """Return the value at `path` as it stands now, or `ABSENT`."""
        return paths.lookup(self.document, path)

    def set(self, path: Path, value: Any, *, rule: str, reason: str) -> None:
        """Make `value` stand at `path`: `add` where nothing was, `replace` where another value was.

        Missing parents are created in the same operation. Setting what already stands there records nothing.
        """
        before = paths.lookup(self.document, path)
        if not isinstance(before, Absent):
            if before != value or type(before) is not type(value):
                self._record("replace", path, before, value, rule, reason)
            return
        place, value = self._with_parents(path, value)
        self._record("add", place, ABSENT, value, rule, reason)

    def append(self, path: Path, entry: Any, *, rule: str, reason: str) -> None:
        """Add `entry` at the end of the list at `path`; the list is created when missing, never rewritten."""
        entries = paths.lookup(self.document, path)
        if isinstance(entries, list):
            self._record("add", (*path, len(entries)), ABSENT, entry, rule, reason)
        else:
            self.set(path, [entry], rule=rule, reason=reason)

    def remove(self, path: Path, *, rule: str, reason: str) -> None:
        """Take away what stands at `path`; nothing is recorded when nothing stands there."""
        before = paths.lookup(self.document, path)
        if not isinstance(before, Absent):
            self._record("remove", path, before, ABSENT, rule, reason)

    def report(self, finding: findings.Finding) -> None:
        """Add a finding, usually a warning that says what could not be enforced."""
        self.findings.append(finding)

    def patch(self) -> list[Operation]:
        """Return the changes as a JSON Patch: applied to `original` it gives `document`."""
        return [change.operation for change in self._recorded]

    def units(self) -> dict[str, Any]:
        """Return what the touched atomic values were in `original`, keyed by field path (`ABSENT` for none).

        What lies inside a value that was added as a whole is part of it and not listed again.
        """
        before: dict[str, Any] = {}
        created: list[str] = []
        for change in self._recorded:
            if change.unit in before or change.unit.startswith(tuple(created)):
                continue
            place = paths.locate(self.original, change.unit)
            before[change.unit] = ABSENT if place is None else paths.lookup(self.original, place)
            if isinstance(before[change.unit], Absent):
                created += [f"{change.unit}.", f"{change.unit}["]
        return before

    def _with_parents(self, path: Path, value: Any) -> tuple[Path, Any]:
        depth = len(path) - 1
        while depth and isinstance(paths.lookup(self.document, path[:depth]), Absent):
            value = {path[depth]: value}
            depth -= 1
        return path[: depth + 1], value

    def _record(  # noqa: PLR0913  # the members of a Change
        self, op: Literal["add", "replace", "remove"], path: Path, before: Any, after: Any, rule: str, reason: str
    ) -> None:
        unit = paths.unit(path)
        if op == "remove":
            field, unit_field = paths.field(self.document, path), paths.field(self.document, unit)
            self._write(op, path, after)
        else:
            self._write(op, path, after)
            field, unit_field = paths.field(self.document, path), paths.field(self.document, unit)
        self._recorded.append(Change(op, paths.pointer(path), field, unit_field, before, after, rule, reason))

    def _write(self, op: str, path: Path, value: Any) -> None:
        node = self.document = self._own(self.document)
        for part in path[:-1]:
            child = self._own(node[part])
            node[part] = child
            node = child
        last = path[-1]
        if op == "remove":
            del node[last]
        elif isinstance(node, list) and isinstance(last, int) and op == "add":
            node.insert(last, value)
        else:
            node[last] = value

    def _own(self, node: Any) -> Any:
        if id(node) in self._copied:
            return node
        copy = node.copy() if isinstance(node, (dict, list)) else dict(node)
        self._copied[id(copy)] = copy
        return copy
