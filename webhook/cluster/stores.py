"""The objects of one kind, packed.

A parsed object takes six times the memory of its JSON, and a cluster may have ten thousand TrainJobs of which a webhook
reads a few per second. So objects are kept as JSON bytes and parsed at each read (6 microseconds for a runtime). Each
reader gets its own copy and cannot change the cache. Snapshots stay YAML; equal ones, as nearly all snapshots of one
runtime are, share one string.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import orjson

from webhook.cluster import readers, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webhook.cluster import served

__all__ = ["Entries", "Store"]


class Frozen(NamedTuple):
    """A snapshot: its YAML, and the uid of the TrainJob that it belongs to ("" when the ConfigMap has no owner)."""

    text: str
    owner: str


Entries = dict[readers.Ref, bytes | Frozen]  # JSON, or a snapshot


class Store:
    """Objects of one kind by their `Ref`.

    Args:
        kind: defines what is kept of an object.
    """

    def __init__(self, kind: served.Kind) -> None:
        self._kind = kind
        self._entries: Entries = {}

    def __len__(self) -> int:
        return len(self._entries)

    def pack(self, documents: Iterable[readers.Document]) -> Entries:
        """Return entries for the raw objects that are kept."""
        return {ref: self._packed(document) for document in documents if (ref := self._kind.ref(document)) is not None}

    def replace(self, entries: Entries) -> None:
        """Replace all entries in one step; no reader sees a state in between."""
        self._entries = entries

    def put(self, document: readers.Document) -> None:
        """Add or replace one raw object, if its kind keeps it."""
        self._entries.update(self.pack((document,)))

    def drop(self, document: readers.Document) -> None:
        """Remove one raw object, if it is held."""
        ref = self._kind.ref(document)
        if ref is not None:
            self._entries.pop(ref, None)

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return a new copy of the object, or None when it is not held.

        Raises:
            SnapshotInvalid: it is a snapshot that does not hold a runtime.
        """
        entry = self._entries.get(ref)
        if entry is None:
            return None
        if isinstance(entry, Frozen):
            owners = [{"kind": "TrainJob", "controller": True, "uid": entry.owner}] if entry.owner else []
            return self._kind.read(
                ref, {"metadata": {"ownerReferences": owners}, "data": {snapshots.DATA_KEY: entry.text}}
            )
        document: readers.Document = orjson.loads(entry)
        return document

    def every(self, labels: readers.Labels) -> Iterator[readers.Document]:
        """Yield a new copy of each object that has the labels, parsed when it is yielded; see `ClusterReader.every`.

        Searching the bytes for the label first costs a seventh of parsing, and most nodes belong to other pools.
        """
        needles = [tuple(orjson.dumps({key: value})[1:-1] for value in values) for key, values in labels.items()]
        for ref, entry in tuple(self._entries.items()):
            if isinstance(entry, Frozen) or all(any(needle in entry for needle in each) for each in needles):
                document = self.get(ref)
                if document is not None and readers.is_chosen(document, labels):
                    yield document

    def _packed(self, document: readers.Document) -> bytes | Frozen:
        if self._kind.suffix:
            return Frozen(sys.intern(snapshots.text(document)), sys.intern(_owner(document)))
        # a copy has the exact size; orjson's result keeps its growth buffer, four times as much (measured)
        return bytes(memoryview(orjson.dumps(self._kind.trim(document))))


def _owner(document: readers.Document) -> str:
    for reference in document["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid") or "")
    return ""
