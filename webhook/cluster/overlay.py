"""One request's view of the cluster.

Between two attempts at one decision the cache may change, and a fetched document is newer than the cache. The overlay
keeps the first answer for each document, fetched or cached, so that one decision never sees two versions of a runtime.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.webhook.cluster import readers

__all__ = ["Overlay"]


class Overlay:
    """A reader over another reader that remembers what was fetched and read; make one for each request.

    Args:
        reader: answers for documents that have not been put or read before.
    """

    def __init__(self, reader: readers.ClusterReader) -> None:
        self._reader = reader
        self.trainer = readers.trainer_of(reader)
        self._answers: dict[readers.Ref, readers.Document | readers.SnapshotInvalid | None] = {}

    @property
    def whole(self) -> bool:
        """As the reader's. See `ClusterReader.whole`."""
        return self._reader.whole

    def put(self, ref: readers.Ref, document: readers.Document | readers.SnapshotInvalid | None) -> None:
        """Answer `ref` with this document from now on, or raise this error; None means that it does not exist."""
        self._answers[ref] = document

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return what was put, else the reader's answer, which is then kept. See `ClusterReader.get`."""
        if ref not in self._answers:
            self._answers[ref] = self._reader.get(ref)
        answer = self._answers[ref]
        if isinstance(answer, readers.SnapshotInvalid):
            raise answer.with_traceback(None)
        return answer

    def every(self, kind: str, labels: readers.Labels) -> Iterable[readers.Document] | None:
        """Return the reader's answer, which is not kept. See `ClusterReader.every`."""
        return self._reader.every(kind, labels)
