"""The Secret with the shared authorities: read by every replica, written by whichever has something that it lacks.

Every write is of the version that was read, or a creation, so of two writers one is told to look again; and since
authorities are only ever added (`certs.rings`), looking again and joining is all that there is to do. So a Secret that
was deleted comes back with the same authorities as long as one replica runs.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Any

from certs import errors, expiries, rings
from webhook.cluster import kinds, writes

__all__ = ["KEY", "SharedSecret"]

KEY = "authorities.pem"
"""Where in the Secret they lie: certificates, each with its key behind it, the newest first."""

_ATTEMPTS = 8  # a conflict means that another replica got on; there are few replicas and few changes
_TYPE = "muster.dev/authorities"

_logger = logging.getLogger(__name__)


class SharedSecret:
    """One Secret.

    Args:
        access: to the API server.
        namespace, name: of the Secret.
        clock: of wall time.
    """

    def __init__(
        self, access: writes.Writes, namespace: str, name: str, clock: expiries.Clock = expiries.utc_now
    ) -> None:
        self._access = access
        self._namespace = namespace
        self._name = name
        self._clock = clock

    async def join(self, mine: rings.Ring) -> rings.Ring:
        """Return what the Secret holds together with `mine`, which is afterwards what it holds.

        An empty `mine` only reads, and is the answer when there is no Secret.

        Raises:
            MaterialError: it is damaged, and `mine` is empty, so that there is nothing to repair it with.
            TransportError: no usable answer of the API server, or a conflict time and again.
        """
        for _ in range(_ATTEMPTS):
            document = await self._access.get(kinds.SECRET, self._namespace, self._name)
            stored = self._stored(document, mine)
            joined = stored.joined(mine, self._clock())
            if joined.fingerprints == stored.fingerprints:
                return joined
            try:
                await self._write(document, joined)
            except writes.ConflictError:
                continue
            return joined
        raise self._contended()

    async def begin(self, fresh: rings.Ring) -> rings.Ring:
        """Return what the Secret holds, or `fresh`, which it then holds, when it has nothing that is valid.

        Raises:
            MaterialError, TransportError: as `join`.
        """
        for _ in range(_ATTEMPTS):
            document = await self._access.get(kinds.SECRET, self._namespace, self._name)
            stored = self._stored(document, rings.Ring())
            if any(each.window.covers(self._clock()) for each in stored.members):
                return stored
            try:
                await self._write(document, stored.joined(fresh, self._clock()))
            except writes.ConflictError:
                continue
            return stored.joined(fresh, self._clock())
        raise self._contended()

    def _contended(self) -> writes.ConflictError:
        return writes.ConflictError(
            409, f"Secret {self._namespace}/{self._name} changes faster than it can be read and written"
        )

    def _stored(self, document: Mapping[str, Any] | None, mine: rings.Ring) -> rings.Ring:
        """Return the ring in a Secret; one that is damaged counts as empty when ours can take its place."""
        if document is None:
            return rings.Ring()
        origin = f"Secret {self._namespace}/{self._name}, key {KEY}"
        try:
            return rings.parse(_decoded(document, origin), origin, self._clock())
        except errors.MaterialError as error:
            if not mine.members:
                raise
            _logger.warning("the shared authorities are damaged and written anew", extra=error.facts())
            return rings.Ring()

    async def _write(self, document: Mapping[str, Any] | None, ring: rings.Ring) -> None:
        data = {KEY: base64.b64encode(ring.pem()).decode()}
        if document is not None:
            await self._access.replace(kinds.SECRET, {**document, "data": {**(document.get("data") or {}), **data}})
            return
        metadata = {
            "name": self._name,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/name": "muster", "app.kubernetes.io/managed-by": "muster"},
        }
        made = {"apiVersion": "v1", "kind": "Secret", "type": _TYPE, "metadata": metadata, "data": data}
        await self._access.create(kinds.SECRET, made)


def _decoded(document: Mapping[str, Any], origin: str) -> bytes:
    text = (document.get("data") or {}).get(KEY)
    if not isinstance(text, str) or not text:
        raise errors.MaterialError(origin, "is not there", "delete the Secret: Muster writes it anew")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise errors.MaterialError(
            origin, f"is not base64 ({error})", "delete the Secret: Muster writes it anew"
        ) from error
