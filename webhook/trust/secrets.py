"""The Secret with the shared authorities: every replica reads it, and a replica writes what the Secret lacks.

Every write is a creation or a replacement of the version that was read, so of two writers one gets a conflict. Since
authorities are only ever added (`muster.certs.rings`), that writer only has to read again and join. A Secret that was
deleted comes back with the same authorities as long as one replica runs.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.certs import errors, expiries, rings
from muster.webhook.cluster import kinds, writes

__all__ = ["KEY", "SharedSecret"]

KEY = "authorities.pem"
"""The key of the Secret's data: certificates, each followed by its private key, the newest first."""

_TYPE = "muster.dev/authorities"

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class SharedSecret:
    """The Secret of one installation.

    Attributes:
        access: sends requests to the API server.
        namespace: where the Secret is.
        name: its name.
        clock: returns the wall-clock time.
    """

    access: writes.Writes
    namespace: str
    name: str
    clock: expiries.Clock = expiries.utc_now

    async def join(self, mine: rings.Ring) -> rings.Ring:
        """Join the Secret's authorities with `mine`, store the result in the Secret, and return it.

        An empty `mine` only reads, and is returned when there is no Secret.

        Raises:
            MaterialError: the Secret is damaged, and `mine` is empty, so that there is nothing to repair it with.
            TransportError: the API server gave no usable answer, or every attempt ended in a conflict.
        """
        return await self._stored_after(lambda _: mine, mine)

    async def begin(self, fresh: rings.Ring) -> rings.Ring:
        """Return the Secret's authorities; when none of them is valid, store `fresh` and return it.

        Raises:
            MaterialError, TransportError: as for `join`.
        """

        def added(stored: rings.Ring) -> rings.Ring:
            is_usable = any(each.window.covers(self.clock()) for each in stored.members)
            return rings.Ring() if is_usable else fresh

        return await self._stored_after(added, rings.Ring())

    async def _stored_after(self, added: Callable[[rings.Ring], rings.Ring], mine: rings.Ring) -> rings.Ring:
        """Join the Secret's authorities with those that `added` returns for them; return the result."""
        joined = mine

        async def changed(document: dict[str, Any] | None) -> dict[str, Any] | None:
            nonlocal joined
            stored = self._stored(document, mine)
            joined = stored.joined(added(stored), self.clock())
            return None if joined.fingerprints == stored.fingerprints else self._document(document, joined)

        await self.access.swap(kinds.SECRET, self.namespace, self.name, changed)
        return joined

    def _stored(self, document: Mapping[str, Any] | None, mine: rings.Ring) -> rings.Ring:
        """Return the ring in a Secret; a damaged one counts as empty when this replica's ring can replace it."""
        if document is None:
            return rings.Ring()
        origin = f"Secret {self.namespace}/{self.name}, key {KEY}"
        try:
            return rings.parse(_decoded(document, origin), origin, self.clock())
        except errors.MaterialError as error:
            if not mine.members:
                raise
            _logger.warning("the shared authorities are damaged and written again", extra=error.facts())
            return rings.Ring()

    def _document(self, present: dict[str, Any] | None, ring: rings.Ring) -> dict[str, Any]:
        labels = {"app.kubernetes.io/name": "muster", kinds.MANAGED_LABEL: kinds.MANAGER}
        metadata = {"name": self.name, "namespace": self.namespace, "labels": labels}
        document = present or {"apiVersion": "v1", "kind": "Secret", "type": _TYPE, "metadata": metadata}
        return {**document, "data": {**(document.get("data") or {}), KEY: base64.b64encode(ring.pem()).decode()}}


def _decoded(document: Mapping[str, Any], origin: str) -> bytes:
    text = (document.get("data") or {}).get(KEY)
    if not isinstance(text, str) or not text:
        raise errors.MaterialError(origin, "is missing", "delete the Secret: Muster writes it again")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise errors.MaterialError(
            origin, f"is not base64 ({error})", "delete the Secret: Muster writes it again"
        ) from error
