"""Keeps a listener's certificate up to date with its source for as long as the process runs.

The loop must survive every failure: nobody notices a dead rotation task until the certificate expires. So each
failure is counted, kept for readiness and logged once until it changes, and the look is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from muster.certs import errors

if TYPE_CHECKING:
    from muster.certs import contexts, material_sources

__all__ = ["INTERVAL", "Follower"]

INTERVAL = 10.0
"""Seconds between looks at the source; the kubelet itself takes about a minute to update a mounted Secret."""

_JITTER = 0.1

_log = logging.getLogger(__name__)


class Follower:
    """Asks a source at intervals, and reloads the listener when the answer has changed.

    `reloads` and `failures` count since the start; `error` is the failure of the last look, or None.
    """

    def __init__(
        self,
        serving: contexts.ServingContext,
        source: material_sources.CertificateSource,
        *,
        interval: float = INTERVAL,
    ) -> None:
        self._serving = serving
        self._source = source
        self._interval = interval
        self.reloads = 0
        self.failures = 0
        self.error: Exception | None = None

    async def run(self) -> None:
        """Look every `interval` seconds, give or take a tenth, until cancelled."""
        while True:
            await asyncio.sleep(self._interval * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - no secret
            await self.look()

    async def look(self) -> None:
        """Look once: reload, or record why not. Errors of the source and of the TLS library are never raised."""
        try:
            # The source may block, so it runs in a thread; the context belongs to the thread of this loop.
            material = await asyncio.to_thread(self._source.current)
            if material != self._serving.material:
                self._serving.reload(material)
                self._note_reload()
        except Exception as error:  # noqa: BLE001 - whatever a source raises, the loop must go on
            self._note_failure(error)
        else:
            self.error = None

    def _note_reload(self) -> None:
        self.reloads += 1
        served = self._serving.material
        _log.info(
            "serving a new certificate",
            extra={
                "fingerprint": served.fingerprint,
                "leaf_expires": served.leaf.not_after.isoformat(),
                "authority_expires": served.authority.not_after.isoformat(),
            },
        )

    def _note_failure(self, error: Exception) -> None:
        self.failures += 1
        repeated = str(error) == str(self.error)
        self.error = error
        if repeated:
            return
        known = isinstance(error, errors.CertificateError)
        _log.error(
            "certificate not renewed, serving the last good one",
            exc_info=None if known else error,
            extra=error.facts() if isinstance(error, errors.CertificateError) else {"problem": repr(error)},
        )
