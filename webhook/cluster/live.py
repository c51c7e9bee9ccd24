"""The running cluster, as a reader.

A cache lags behind the API server by a few milliseconds, and a runtime and its TrainJob often arrive in one
`kubectl apply`. So a document in the cache is an answer, but a missing one is not: `get` raises `NotCached`, the caller
fetches it, and only the API server itself decides that a document does not exist.

A cache whose watch is broken or silent is not trusted either: its documents are fetched in the same way, and the cached
ones are used only when the API server cannot be reached. An old answer is better than none when it is known to be old.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence

from muster.kube import payloads, transports
from muster.strategies.documents.runtimes import Version
from muster.webhook.cluster import fetches, kinds, readers, reflector, served, stores

__all__ = ["ASK_AGAIN", "ROOM", "SILENT", "LiveReader"]

SILENT = 75.0
"""Seconds of silence on a watch after which its cache is not trusted; the API server sends a bookmark each minute."""
ASK_AGAIN = 5.0
"""Seconds for which caches answer after a fetch failed; an admission has no time for many failed fetches."""

ROOM = 160 * 1024 * 1024
"""Bytes that all cached objects together may take, where nothing else is said."""
_logger = logging.getLogger(__name__)


class LiveReader:
    """Answers from caches that follow the API server, and fetches other documents.

    Without `start` nothing is cached, `get` always raises `NotCached`, and `fetch` works.

    Args:
        watched: the kinds to cache; any other known kind is fetched each time, and needs only the RBAC verb get.
        api: a connection to the API server; not closed here.
        deadline: seconds for one fetch.
        pace: clock, jitter and waiting times.
        room: bytes that all cached objects together may take; each kind has a share of them.
        namespaces: whose objects are cached, with equal parts of a kind's share; () for all.
    """

    whole = True
    trainer: Version | None = None

    def __init__(  # noqa: PLR0913 - what a cache is made with
        self,
        watched: Iterable[served.Kind],
        api: transports.Api,
        deadline: float = 1.0,
        *,
        pace: reflector.Pace | None = None,
        room: int = ROOM,
        namespaces: Sequence[str] = (),
    ) -> None:
        pace = pace or reflector.Pace()
        turn = payloads.Turn()
        self._clock = pace.clock
        self._fetches = fetches.Fetches(api, deadline, clock=pace.clock, turn=turn)
        self._reflectors: dict[tuple[str, str], reflector.Reflector] = {}
        for kind in watched:
            spaces = (namespaces if kind.namespaced else ()) or ("",)
            for space in spaces:
                store = stores.Store(kind, int(room * kind.share / len(spaces)))
                self._reflectors[kind.name, space] = reflector.Reflector(kind, api, pace, store, turn, space)
        self._tasks: list[asyncio.Task[None]] = []
        self._ask_from = 0.0  # until this clock reading, caches that are not trusted answer too

    def start(self) -> None:
        """Start following; needs a running event loop. Returns at once; see `synced`.

        Raises:
            RuntimeError: it is already started.
        """
        if self._tasks:
            raise RuntimeError("this LiveReader is already started; stop it first")
        self._tasks = [
            asyncio.create_task(each.run(), name=f"reflector {' '.join(key)}") for key, each in self._reflectors.items()
        ]

    async def stop(self) -> None:
        """Stop following and cancel fetches; cached documents stay readable. Stopping twice has no further effect."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._fetches.stop()

    @property
    def synced(self) -> bool:
        """Whether each watched kind was listed once, is known not to be served, or takes long and is fetched."""
        return all(each.synced or each.is_long for each in self._reflectors.values())

    def ages(self) -> dict[str, float]:
        """Seconds since the API server last sent anything about each kind; above 130 the watch has a problem."""
        now = self._clock()
        return {name: max(now - each.contact for each in found) for name, found in self._kinds().items()}

    def figure(self, name: str) -> dict[str, float]:
        """Return a figure about each cache, by kind; its name is one of `stores.FIGURES`."""
        count = stores.FIGURES[name]
        return {name: float(sum(count(each.store) for each in found)) for name, found in self._kinds().items()}

    def problems(self) -> dict[str, str]:
        """The current problem of each kind that has one, for people: RBAC, CRD not installed, no contact."""
        return {name: each.problem for (name, _), each in self._reflectors.items() if each.problem}

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return the cached document. See `ClusterReader.get`.

        Returns:
            A copy that the caller may change; None only for an optional kind that this API server does not serve.
        """
        each = self._reflector(ref)
        if each is None:
            kinds.named(ref.kind)
            raise readers.NotCached(ref)
        if self._is_doubtful(each):
            raise readers.NotCached(ref)
        document = each.store.get(ref)
        if document is None and not (each.absent and each.kind.optional):
            raise readers.NotCached(ref)
        return document

    def every(self, kind: str, labels: readers.Labels) -> Iterator[readers.Document] | None:
        """Yield the cached documents of a kind; None unless its watch works. See `ClusterReader.every`."""
        found = self._kinds().get(kind)
        if found is None:
            kinds.named(kind)
            return None
        is_whole = all(each.synced and not each.store.left_out and not self._is_doubtful(each) for each in found)
        return itertools.chain.from_iterable(each.store.every(labels) for each in found) if is_whole else None

    async def fetch(self, ref: readers.Ref) -> readers.Document | None:
        """Ask the API server itself, once; when it does not answer, return the cached document, if there is one.

        See `fetches.Fetches.fetch` for limits and errors.
        """
        try:
            return await self._fetches.fetch(ref)
        except readers.ClusterError as error:
            each = self._reflector(ref)
            # On a thread, since a snapshot that nobody has read yet may take long.
            kept = await asyncio.to_thread(each.store.get, ref, patient=True) if each else None
            if kept is None:
                raise
            # A fetch that was not sent because too many were under way says nothing about the API server.
            if isinstance(error, readers.ClusterUnavailable):
                self._rely_on_caches(ref, error)
            return kept

    def _reflector(self, ref: readers.Ref) -> reflector.Reflector | None:
        """Return what follows an object; None for one of a kind or a namespace that is not watched."""
        return self._reflectors.get((ref.kind, ref.namespace)) or self._reflectors.get((ref.kind, ""))

    def _kinds(self) -> dict[str, list[reflector.Reflector]]:
        found: dict[str, list[reflector.Reflector]] = {}
        for (name, _), each in self._reflectors.items():
            found.setdefault(name, []).append(each)
        return found

    def _rely_on_caches(self, ref: readers.Ref, error: readers.ClusterError) -> None:
        if self._clock() >= self._ask_from:
            _logger.warning("cluster answers from old caches", extra={"ref": str(ref), "error": str(error)})
        self._ask_from = self._clock() + ASK_AGAIN

    def _is_doubtful(self, each: reflector.Reflector) -> bool:
        now = self._clock()
        if each.absent or now < self._ask_from:
            return False
        return not each.synced or bool(each.problem) or now - each.contact > SILENT
