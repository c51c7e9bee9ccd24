"""Reads single documents from the API server when a cache cannot answer.

The caller is an admission with a second or two left, and many admissions may need the same document. So every fetch
has a deadline, fetches of one document share one GET, the absence of a document is remembered for a second, and above
a fixed number of GETs under way, in all and for one namespace, a fetch fails at once rather than waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from muster.kube import payloads, transports
from muster.webhook.cluster import kinds, readers, served, snapshots

__all__ = ["MAX_ABSENT", "MAX_ALL", "MAX_FLIGHTS", "Fetches"]

MAX_FLIGHTS = 16
"""GETs under way for the objects of one namespace; others still get theirs when the authors in it cause many."""
MAX_ALL = 48
"""GETs under way altogether."""
MAX_ABSENT = 1024
_ABSENT_FOR = 1.0  # seconds
_MAX_PARSING = 2  # long texts that are read at the same time, each on a thread
_MAX_OBJECT = 4 * 1024 * 1024  # bytes


class Fetches:
    """Single GETs, shared and limited in number.

    Args:
        api: a connection to the API server; not closed here.
        deadline: seconds for one GET, connection included.
        clock: returns monotonic seconds.
        turn: what readers of large bodies share.
    """

    def __init__(
        self,
        api: transports.Api,
        deadline: float = 1.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        turn: payloads.Turn | None = None,
    ) -> None:
        self._api = api
        self._turn = turn or payloads.Turn()
        self._deadline = deadline
        self._clock = clock
        self._parsing = asyncio.Semaphore(_MAX_PARSING)
        self._flights: dict[readers.Ref, asyncio.Task[readers.Document | None]] = {}
        self._absent: OrderedDict[readers.Ref, float] = OrderedDict()  # until when, soonest first

    async def fetch(self, ref: readers.Ref) -> readers.Document | None:
        """Return the document as the API server has it now, or None when it does not exist.

        A caller that is cancelled does not end the GET for the others.

        Raises:
            ClusterBusy: too many other documents are being fetched.
            ClusterUnavailable: there was no usable answer within the deadline; the cause is chained.
            SnapshotInvalid: it is a snapshot that does not hold a runtime.
            UnknownKindError: Muster does not read this kind.
        """
        kind = kinds.named(ref.kind)
        if not kind.can_exist(ref) or self._absent.get(ref, 0.0) > self._clock():
            return None
        flight = self._flights.get(ref)
        if flight is None:
            alike = sum(each.namespace == ref.namespace for each in self._flights)
            if alike >= MAX_FLIGHTS or len(self._flights) >= MAX_ALL:
                count = MAX_FLIGHTS if alike >= MAX_FLIGHTS else MAX_ALL
                raise readers.ClusterBusy(f"{ref} was not fetched: {count} fetches are under way; try again")
            flight = asyncio.create_task(self._get(kind, ref), name=f"fetch {ref}")
            self._flights[ref] = flight
            flight.add_done_callback(lambda _: self._flights.pop(ref))
        return await asyncio.shield(flight)

    async def stop(self) -> None:
        """Cancel all GETs, and with them the callers that wait for one."""
        flights = tuple(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    async def _get(self, kind: served.Kind, ref: readers.Ref) -> readers.Document | None:
        patience = transports.Patience(self._deadline, self._deadline)
        try:
            async with (
                asyncio.timeout(self._deadline),
                self._api.get(kind.path(ref.namespace, ref.name), {}, patience) as response,
            ):
                document = await payloads.read(await payloads.checked(response), _MAX_OBJECT, str(ref), self._turn)
                if not kind.suffix:
                    return kind.read(ref, document)
                document = snapshots.trimmed(document)
                if snapshots.is_quick(snapshots.text(document)):
                    return kind.read(ref, document)
                async with self._parsing:
                    return await asyncio.to_thread(kind.read, ref, document)
        except transports.RefusedError as error:
            if error.status == 404:
                self._remember_absent(ref)
                return None
            hint = f"; this service account needs: {kind.rbac}" if error.status in {401, 403} else ""
            raise readers.ClusterUnavailable(f"{ref} could not be fetched: {error}{hint}") from error
        except transports.TransportError as error:
            raise readers.ClusterUnavailable(f"{ref} could not be fetched: {error}") from error
        except TimeoutError as error:
            raise readers.ClusterUnavailable(f"{ref} could not be fetched within {self._deadline} s") from error

    def _remember_absent(self, ref: readers.Ref) -> None:
        self._absent[ref] = self._clock() + _ABSENT_FOR
        self._absent.move_to_end(ref)
        while len(self._absent) > MAX_ABSENT:
            self._absent.popitem(last=False)
