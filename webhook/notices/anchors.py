"""Notes anchors of the audit log in the cluster, where who can change the log cannot change them.

From time to time, and when the service stops, number and hash of the last record of each log go into one ConfigMap
(`audit.log.notes`), by compare and swap, since all replicas write it. Anchors of a chain, chains and tries are bounded.
No admission waits for this, and none depends on it.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import re
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster import backoffs
from muster.audit import anchor_notes, record_schema
from muster.audit.anchor_notes import Chronicle, Ends
from muster.kube import transports
from muster.webhook.cluster import kinds, writes

__all__ = ["Anchors"]

_logger = logging.getLogger(__name__)
_LAST = 2.0  # seconds to write when the service ends
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 120.0
_LONGEST_NAME = 200  # characters of a pod's or a sink's name
_UNFIT = re.compile(r"[^A-Za-z0-9.-]")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Anchors:
    """Keeps the anchors of this process's logs in the ConfigMap.

    Args:
        access: sends requests to the API server; needs the verbs get, create and update on the ConfigMap.
        namespace: the namespace of the ConfigMap.
        ends: returns what was written of each chain, always in the same order.
        failed: called for each failure.
        interval: seconds between two anchors of a log.
        pod: the name of this pod; the host's by default.
        clock: returns the wall-clock time.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and what a test sets
        self,
        access: writes.Writes,
        namespace: str,
        ends: Callable[[], Sequence[Ends | None]],
        failed: Callable[[], None] = lambda: None,
        interval: float = 60.0,
        pod: str = "",
        clock: Callable[[], datetime.datetime] = _now,
    ) -> None:
        self._access = access
        self._namespace = namespace
        self._ends = ends
        self._count_failure = failed
        self._interval = interval
        self._pod = (pod or socket.gethostname())[:_LONGEST_NAME]
        self._clock = clock
        self._process = f"{_UNFIT.sub('-', self._pod)}.{secrets.token_hex(4)}"
        self._kept: dict[str, Chronicle] = {}
        self._rng = random.Random()  # noqa: S311 - jitter, no secret
        self._backoff = backoffs.Backoff(base=_FIRST_PAUSE, cap=_LONGEST_PAUSE)
        self._failing = False

    async def run(self) -> None:
        """Note the ends of the logs in each interval, until cancelled."""
        pause = self._rest()
        while True:
            await asyncio.sleep(pause)
            pause = await self.note()

    async def end(self) -> None:
        """Note the ends of the logs for the last time, within two seconds."""
        try:
            async with asyncio.timeout(_LAST):
                await self.note()
        except TimeoutError as error:
            self._fail(error)

    async def note(self) -> float:
        """Note the ends of the logs once; return the seconds until that is due again."""
        try:
            await self._write(self._fresh())
        except Exception as error:  # noqa: BLE001  # whatever it is, the next try is due
            self._fail(error)
            return self._backoff.delay(getattr(error, "retry_after", None))
        if self._failing:
            _logger.warning("audit anchors are noted again")
        self._failing = False
        self._backoff.reset()
        return self._rest()

    def _rest(self) -> float:
        return self._interval * self._rng.uniform(0.8, 1.2)

    def _fail(self, error: Exception) -> None:
        """Count a failure, and warn once until a write succeeds again."""
        self._count_failure()
        level = logging.DEBUG if self._failing else logging.WARNING
        self._failing = True
        _logger.log(level, "audit anchors not noted", extra={"problem": str(error), "advice": _advice(error)})

    def _fresh(self) -> dict[str, Chronicle]:
        """Return the chronicles of this process, each with the present end of its chain."""
        time = record_schema.timestamp(self._clock())
        return {
            key: self._continued(key, ends, time)
            for number, ends in enumerate(self._ends())
            if ends is not None and (key := f"{self._process}.{number}")
        }

    def _continued(self, key: str, ends: Ends, time: str) -> Chronicle:
        first = replace(ends.first, time=time)
        chronicle = self._kept.get(key) or Chronicle(self._pod, ends.sink[:_LONGEST_NAME], (first,))
        newest = chronicle.anchors[-1]
        if (newest.seq, newest.hash) == (ends.last.seq, ends.last.hash):
            return chronicle
        return chronicle.noted(replace(ends.last, time=time))

    async def _write(self, fresh: dict[str, Chronicle]) -> None:
        """Put the chronicles of this process into the ConfigMap.

        It is looked at even where nothing is new: what somebody has removed of this process's is written again.
        """

        async def changed(present: dict[str, Any] | None) -> dict[str, Any]:
            return {**(present or self._empty()), "data": _folded((present or {}).get("data") or {}, fresh)}

        if fresh:
            await self._access.swap(kinds.CONFIG_MAP, self._namespace, anchor_notes.NAME, changed)
        self._kept = fresh

    def _empty(self) -> dict[str, Any]:
        metadata = {
            "name": anchor_notes.NAME,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/name": "muster", kinds.MANAGED_LABEL: kinds.MANAGER},
        }
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _folded(there: Mapping[str, str], fresh: Mapping[str, Chronicle]) -> dict[str, str]:
    """Return the data of the ConfigMap: texts of others as they are, unless they are too many or no notes."""
    chains, odd = dict(fresh), []
    for key, text in there.items():
        try:
            chains.setdefault(key, anchor_notes.parse(text))
        except anchor_notes.NoteError:
            odd.append(key)
    if odd:
        _logger.warning("audit anchors that Muster did not write are removed", extra={"keys": odd[:8]})
    kept = anchor_notes.pruned(chains, fresh)
    return {key: anchor_notes.rendered(fresh[key]) if key in fresh else there[key] for key in kept}


def _advice(error: Exception) -> str:
    if isinstance(error, transports.RefusedError) and error.status == 403:
        return "apply manifests/overlays/production/rbac-anchors.yaml, or set config.audit.anchors of the chart"
    return "Muster tries again; until then the end of the log can be cut off without a trace"
