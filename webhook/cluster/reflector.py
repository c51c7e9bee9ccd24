"""Keeps one kind's store equal to the API server's: list once, then watch.

The protocol is that of https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
After a broken connection the watch resumes where it was; after a refused or unreadable one the reflector starts over
with a list. The old objects stay readable until a new list is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, field

from muster import backoffs
from muster.kube import payloads, transports
from muster.webhook.cluster import served, stores

__all__ = ["MAX_OBJECT", "MAX_PAGE", "Pace", "Reflector"]

# etcd takes objects of at most 1.5 MiB by default, and the API server writes each `<` of a ConfigMap as six characters.
MAX_OBJECT = 12 * 1024 * 1024  # bytes of one watch event, or of a page with one object
MAX_PAGE = 4 * 1024 * 1024  # bytes of one list page
MAX_VALUES = 200_000  # values of one list page, which are parsed within 20 ms and take some 80 bytes each
_CALM = 8  # pages after which larger ones are tried again
_SKIPPED = 16 * 1024  # bytes of an event from which one looks for the name before it is parsed

_logger = logging.getLogger(__name__)


class Pace(Struct, frozen=True):
    """The times of a reflector, in seconds.

    Attributes:
        connect: time limit for a connection.
        page: time limit for one list page.
        listing: time of a first list after which nobody waits for it any more.
        watch: bounds of the length of one watch, which the server ends; random, so that replicas spread.
        silence: time without event or bookmark after which a watch is considered broken; a bookmark usually comes each
            minute.
        absent: time between two tries of a kind that the API server does not serve, give or take a fifth.
        settled: a watch that lasted this long resets the back-off.
        clock: returns monotonic seconds.
        sleep: waits for some seconds.
        rng: the source of jitter.
    """

    connect: float = 5.0
    page: float = 60.0
    listing: float = 45.0
    watch: tuple[float, float] = (240.0, 480.0)
    silence: float = 130.0
    absent: float = 30.0
    settled: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)


class Reflector:
    """Mirrors one kind into a store until cancelled.

    Attributes:
        kind: the kind that is mirrored.
        store: the objects; not complete until `synced`.
        synced: a list was complete once, or the kind is known to be absent.
        absent: the API server does not serve the kind.
        contact: clock reading of the last message from the API server about this kind.
        problem: what is wrong now, for people; empty when nothing is wrong.

    Args:
        kind: the kind to mirror.
        api: a connection to the API server; not closed here.
        pace: clock, jitter and waiting times.
        store: where the objects are kept.
        turn: what readers of large bodies share.
        namespace: whose objects are mirrored; "" for those of all.
    """

    def __init__(  # noqa: PLR0913 - what a mirror is made with
        self,
        kind: served.Kind,
        api: transports.Api,
        pace: Pace,
        store: stores.Store | None = None,
        turn: payloads.Turn | None = None,
        namespace: str = "",
    ) -> None:
        self.kind = kind
        self._path = kind.path(namespace)
        self.store = stores.Store(kind) if store is None else store
        self.synced = False
        self.absent = False
        self.contact = pace.clock()
        self.problem = ""
        self._api = api
        self._pace = pace
        self._backoff = backoffs.Backoff(pace.rng)
        self._turn = turn or payloads.Turn()
        self._page = kind.page
        self._calm = 0  # pages in a row that were not too large
        self._begun = pace.clock()
        self._version = ""  # resourceVersion to watch from; empty when a list is due
        self._watching_since: float | None = None

    @property
    def is_long(self) -> bool:
        """Whether the first list takes so long that its objects are better fetched one by one, and still goes on."""
        late = self._pace.clock() - self._begun > self._pace.listing
        return not self.synced and not self.problem and late

    async def run(self) -> None:
        """Mirror until cancelled; no failure ends it."""
        while True:
            await self._pace.sleep(await self.cycle())

    async def cycle(self) -> float:
        """List if that is due, watch until the watch ends, and return the seconds to wait before the next cycle."""
        self._watching_since = None
        try:
            if not self._version:
                await self._list()
            await self._watch()
        except transports.UnreachableError as error:
            return self._failed(error)
        except transports.RefusedError as error:
            return self._refused(error)
        except transports.TransportError as error:
            self._version = ""
            return self._failed(error)
        except Exception as error:  # a cache that silently stopped following would be worse than any defect here
            self._version = ""
            _logger.exception("cluster reflector defect", extra={"kind": self.kind.name})
            return self._failed(error)
        return self._delay()

    async def _list(self) -> None:
        """Fetch all pages into the store; what is on none of them is dropped at the end."""
        listing = self.store.listing()
        query: dict[str, str] = {**self.kind.query}
        metadata = await self._list_page(query, listing)
        self.contact = self._pace.clock()  # of the first page, since a change after it may be on none of the others
        while more := metadata.get("continue"):
            query["continue"] = more
            metadata = await self._list_page(query, listing)
        listing.end()
        self._version = metadata["resourceVersion"]
        if self.absent or not self.synced:
            _logger.info("cluster kind synced", extra={"kind": self.kind.name, "objects": len(self.store)})
        self.synced, self.absent = True, False

    async def _list_page(self, query: dict[str, str], listing: stores.Listing) -> dict[str, Any]:
        """Take one page, in smaller pieces when it is too large; return its metadata."""
        while True:
            try:
                metadata = await self._take_page({"limit": str(self._page), **query}, listing)
            except transports.OversizedError:
                self._calm = 0
                if self._page == 1:
                    raise
                self._page = max(1, self._page // 4)
            else:
                self._calm += 1
                if self._calm % _CALM == 0:
                    self._page = min(self.kind.page, self._page * 2)
                return metadata

    async def _take_page(self, query: dict[str, str], listing: stores.Listing) -> dict[str, Any]:
        patience = transports.Patience(self._pace.connect, self._pace.page)
        what = f"a page of {self.kind.plural}"
        limit, most = (MAX_PAGE, MAX_VALUES) if self._page > 1 else (MAX_OBJECT, None)
        try:
            async with asyncio.timeout(self._pace.page), self._api.get(self._path, query, patience) as response:
                page = await payloads.read(await payloads.checked(response), limit, what, self._turn, most)
        except TimeoutError as error:
            raise transports.UnreachableError(f"{what} took more than {self._pace.page} s") from error
        items, metadata = page.get("items"), page.get("metadata")
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise transports.MalformedError(
                f"{what} has no items or no metadata; check that the address is that of an API server"
            )
        listing.take(items)
        return metadata

    async def _watch(self) -> None:
        """Apply events until the server ends the watch."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(self._pace.rng.uniform(*self._pace.watch))),
            **self.kind.query,
        }
        patience = transports.Patience(self._pace.connect, self._pace.silence)
        what = f"a watch event of {self.kind.plural}"
        async with self._api.get(self._path, query, patience) as response:
            await self._accepted(response)
            self.contact = self._watching_since = self._pace.clock()
            if self.problem:
                _logger.info("cluster contact restored", extra={"kind": self.kind.name, "problem": self.problem})
            self.problem = ""
            async with contextlib.aclosing(payloads.lines(response, MAX_OBJECT, what, self._turn)) as lines:
                async for line in lines:
                    if self._concerns(line):
                        self._apply(payloads.parsed(line, what))
                    self.contact = self._pace.clock()

    async def _accepted(self, response: transports.Response) -> None:
        try:
            async with asyncio.timeout(self._pace.page):
                await payloads.checked(response)
        except TimeoutError as error:
            raise transports.UnreachableError(f"a refusal took more than {self._pace.page} s") from error

    def _concerns(self, line: bytes) -> bool:
        """Whether an event may be about an object that is kept; the text of a large one tells without being parsed."""
        return len(line) < _SKIPPED or not self.kind.suffix or f'{self.kind.suffix}"'.encode() in line

    def _apply(self, event: dict[str, Any]) -> None:
        document = event["object"]
        match event["type"]:
            case "ADDED" | "MODIFIED":
                self.store.put(document)
            case "DELETED":
                self.store.drop(document)
            case "BOOKMARK":
                pass
            case "ERROR":
                raise transports.RefusedError(int(document.get("code") or 500), str(document.get("message")))
            case other:
                raise transports.MalformedError(f"a watch event has the unknown type {other!r}")
        self._version = document["metadata"]["resourceVersion"]

    def _refused(self, error: transports.RefusedError) -> float:
        """Start over with a list, at once or after a pause when it would fail now."""
        listing = not self._version
        self._version = ""
        if error.status == 404 and listing:
            return self._absent()
        if error.status == 410:
            _logger.info("cluster watch expired", extra={"kind": self.kind.name, "error": str(error)})
            return self._delay()
        return self._failed(error, error.retry_after)

    def _absent(self) -> float:
        self.store.clear()
        self.synced = self.absent = True
        self.contact = self._pace.clock()
        problem = f"the API server does not serve {self.kind.plural}.{self.kind.group}"
        if problem != self.problem:
            _logger.warning("cluster kind not served", extra={"kind": self.kind.name, "problem": problem})
        self.problem = problem
        return self._pace.absent * self._pace.rng.uniform(0.8, 1.2)

    def _failed(self, error: Exception, retry_after: float | None = None) -> float:
        """Log a problem once, not at each of a hundred equal attempts."""
        denied = isinstance(error, transports.RefusedError) and error.status in {401, 403}
        problem = f"{error}; this service account needs: {self.kind.rbac}" if denied else str(error)
        if problem != self.problem:
            level = logging.ERROR if denied or isinstance(error, transports.OversizedError) else logging.WARNING
            _logger.log(level, "cluster contact failed", extra={"kind": self.kind.name, "problem": problem})
        self.problem = problem
        return self._delay(retry_after)

    def _delay(self, retry_after: float | None = None) -> float:
        if self._watching_since is not None and self._pace.clock() - self._watching_since >= self._pace.settled:
            self._backoff.reset()
        return self._backoff.delay(retry_after)
