"""The objects of one kind, packed.

A parsed object takes six times the memory of its JSON, and a cluster may have ten thousand TrainJobs of which a webhook
reads a few per second. So objects are kept as JSON bytes and parsed at each read (6 microseconds for a runtime). Each
reader gets its own copy and cannot change the cache. Snapshots stay YAML; equal ones of a namespace, as nearly all
snapshots of one runtime are, share one string. All of them together have a limit in bytes: see `shelves`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from muster.webhook.cluster import readers, served, shelves, snapshots

__all__ = ["FIGURES", "ROOM", "Listing", "Store"]

ROOM = 64 * 1024 * 1024
"""Bytes that the objects of one kind may take, where nothing else is said."""

_logger = logging.getLogger(__name__)


class Store:
    """Objects of one kind by their `Ref`.

    Args:
        kind: defines what is kept of an object.
        room: bytes that all objects together may take; what does not fit is left out.

    Attributes:
        room: the same bytes.
    """

    def __init__(self, kind: served.Kind, room: int = ROOM) -> None:
        self.room = room
        self._kind = kind
        self._shelf: shelves.Shelf[Any] = shelves.Shelf(room)  # of bytes; the controllers keep views

    def __len__(self) -> int:
        return len(self._shelf)

    @property
    def used(self) -> int:
        """Bytes that the objects take."""
        return self._shelf.used

    @property
    def left_out(self) -> int:
        """How many objects exist and are not held, because they are too large or there is no room for them."""
        return self._shelf.left_out

    def clear(self) -> None:
        """Forget all objects."""
        self.listing().end()

    def listing(self) -> Listing:
        """Begin to take a list of all objects; see `Listing`."""
        return Listing(self, self._shelf.unmarked)

    def put(self, document: readers.Document) -> readers.Ref | None:
        """Add or replace one raw object, and return its `Ref`; None when its kind does not keep it."""
        ref = self._kind.ref(document)
        if ref is not None:
            try:
                self._hold(ref, document)
            except Exception:  # one odd object must not keep the others from being followed
                self._leave(ref)
                _logger.exception("an object cannot be kept, and is fetched instead", extra={"ref": str(ref)})
        return ref

    def drop(self, document: readers.Document) -> None:
        """Remove one raw object, if it is held."""
        ref = self._kind.ref(document)
        if ref is not None:
            self._remove(ref)

    def get(self, ref: readers.Ref, *, patient: bool = False) -> readers.Document | None:
        """Return a new copy of the object, or None when it is not held.

        Args:
            ref: the object.
            patient: whether a snapshot is read that may take long, and has not been read before.

        Raises:
            NotCached: it is such a snapshot, and the caller is not patient.
            SnapshotInvalid: it is a snapshot that does not hold a runtime.
        """
        found = self._shelf.get(ref)
        if found is None:
            return None
        body, text = found
        if not self._kind.suffix:
            document: readers.Document = orjson.loads(body)
            return document
        if not patient and not snapshots.is_quick(text):
            raise readers.NotCached(ref)
        owners = [{"kind": "TrainJob", "controller": True, "uid": body.decode()}] if body else []
        return self._kind.read(ref, {"metadata": {"ownerReferences": owners}, "data": {snapshots.DATA_KEY: text}})

    def every(self, labels: readers.Labels) -> Iterator[readers.Document]:
        """Yield a new copy of each object that has the labels, parsed when it is yielded; see `ClusterReader.every`.

        Searching the bytes for the label first costs a seventh of parsing, and most nodes belong to other pools.
        """
        needles = [tuple(orjson.dumps({key: value})[1:-1] for value in values) for key, values in labels.items()]
        for namespace, name in self._shelf.names():
            ref = readers.Ref(self._kind.name, namespace, name)
            body, text = self._shelf.get(ref) or (b"", "")
            if text or all(any(needle in body for needle in each) for each in needles):
                document = self.get(ref, patient=True)
                if document is not None and readers.is_chosen(document, labels):
                    yield document

    def retain(self, seen: set[int], unmarked: int) -> None:
        """Forget all objects but those with these hashes of their `Ref`s, and so many that were left out unmarked."""
        for namespace, name in self._shelf.names():
            ref = readers.Ref(self._kind.name, namespace, name)
            if hash(ref) not in seen:
                self._remove(ref)
        self._shelf.keep_only(seen, unmarked)

    def is_known(self, ref: readers.Ref) -> bool:
        """Whether the object is held, or known to be left out."""
        return self._shelf.is_known(ref)

    def _hold(self, ref: readers.Ref, document: readers.Document) -> None:
        if self._kind.suffix:
            owner = _owner(document).encode()
            self._shelf.put(ref, owner, len(owner), snapshots.text(document))
            return
        # a copy has the exact size; orjson's result keeps its growth buffer, four times as much (measured)
        body = bytes(memoryview(orjson.dumps(self._kind.trim(document))))
        self._shelf.put(ref, body, len(body))

    def _leave(self, ref: readers.Ref) -> None:
        self._shelf.leave(ref)

    def _remove(self, ref: readers.Ref) -> None:
        self._shelf.pop(ref)


class Listing:
    """A list of all objects, which is taken page by page into a store.

    The old objects stay readable until the list has ended; each is replaced by its new state as soon as that is known,
    so that old and new objects never take memory at the same time.
    """

    def __init__(self, store: Store, unmarked: int) -> None:
        self._store = store
        self._unmarked = unmarked
        self._seen: set[int] = set()

    def take(self, documents: Iterable[readers.Document]) -> None:
        """Add one page of raw objects."""
        for document in documents:
            ref = self._store.put(document)
            if ref is not None and self._store.is_known(ref):
                self._seen.add(hash(ref))

    def end(self) -> None:
        """Forget all objects that were on no page."""
        self._store.retain(self._seen, self._unmarked)


FIGURES: Final[Mapping[str, Callable[[Store], int]]] = {
    "bytes": lambda store: store.used,
    "limit_bytes": lambda store: store.room,
    "entries": len,
    "left_out": lambda store: store.left_out,
}
"""The figures about a store that are shown, by name."""


def _owner(document: readers.Document) -> str:
    for reference in document["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid") or "")
    return ""
