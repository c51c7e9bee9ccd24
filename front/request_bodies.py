"""Bodies: how many bytes of requests are in memory, all connections together.

Bodies that arrive count, and so do those that have arrived until their answer is made. Where there are too many, those
that arrive or those of one namespace give way, whichever are more bytes. Of those that arrive, the one that has been
arriving for longest is dropped: the API server sends a body within milliseconds, so whoever keeps bodies half-sent
loses them first. Of a namespace, the newest of the user with most bytes is dropped, with what is done with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import HttpVersion11, web

__all__ = ["Bodies", "Body", "BodyDroppedError", "CountedRequest", "pieces"]

Owner = tuple[str, ...]
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyDroppedError(Exception):
    """A body made room for others."""


class Body:
    """One body that is counted.

    Attributes:
        size: bytes in memory.
        owner: namespace and user, once they are known; empty while it arrives.
        drop: ends its arrival, or what is done with it.
    """

    __slots__ = ("drop", "owner", "size")

    def __init__(self, drop: Callable[[], object]) -> None:
        self.size = 0
        self.owner: Owner = ()
        self.drop = drop


class Bodies:
    """Counts the bytes of bodies.

    Args:
        each: bytes of one body.
        limit: bytes of all of them.

    Attributes:
        each: as above.
        held: bytes in memory.
    """

    def __init__(self, each: int, limit: int) -> None:
        self.each = each
        self.held = 0
        self._limit = limit
        self._droppable: defaultdict[Owner, dict[Body, None]] = defaultdict(dict)  # by owner, the oldest first

    def begin(self, drop: Callable[[], object]) -> Body:
        """Count a body from now on."""
        body = Body(drop)
        self._droppable[()][body] = None
        return body

    def grow(self, body: Body, size: int) -> None:
        """Count more bytes of a body, and drop others or itself when there are too many."""
        body.size += size
        self.held += size
        while self.held > self._limit and self._droppable:
            owner = self._largest()
            bodies = self._droppable[owner]
            dropped = next(reversed(bodies) if owner else iter(bodies))
            self.release(dropped)
            dropped.drop()

    def _largest(self) -> Owner:
        sizes = {owner: sum(body.size for body in bodies) for owner, bodies in self._droppable.items()}
        together: Counter[Owner] = Counter()
        for owner, size in sizes.items():
            together[owner[:1]] += size
        return max(sizes, key=lambda owner: (together[owner[:1]], sizes[owner]))

    def arrived(self, body: Body) -> None:
        """Keep a body from being dropped: it is complete."""
        self._droppable[body.owner].pop(body, None)
        if not self._droppable[body.owner]:
            del self._droppable[body.owner]

    def claim(self, body: Body, owner: Owner, drop: Callable[[], object]) -> None:
        """Let a body that has arrived be dropped again, where its owner has most bytes and another body arrives."""
        body.owner, body.drop = owner, drop
        self._droppable[owner][body] = None

    def release(self, body: Body) -> None:
        """Count a body no longer."""
        self.arrived(body)
        self.held -= body.size
        body.size = 0


async def pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Yield the body of a request as it arrives.

    Raises:
        OSError, web.RequestPayloadError: the connection ends before the body, or the body is not as its header says.
    """
    while request.transport is not None:  # aiohttp raises RuntimeError where its end was seen before
        if not (piece := await request.content.readany()):
            return
        yield piece
    raise ConnectionResetError("the connection ended before the body")


class CountedRequest(web.BaseRequest):
    """A request whose body is counted while it is in memory.

    Attributes:
        bodies: counts it.
        is_foreign: whether it is of another version of HTTP.
        complete: is called when the body has arrived.
    """

    _whole: bytes | None = None
    _counted: Body | None = None
    bodies: Bodies
    is_foreign: bool = False
    complete: Callable[[], None]

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            HTTPRequestEntityTooLarge: it is larger than allowed, or says so.
            BodyDroppedError: it made room for others.
        """
        if self._whole is None:
            announced = self.content_length or 0
            if announced > self.bodies.each:
                raise web.HTTPRequestEntityTooLarge(self.bodies.each, announced)
            patience = asyncio.timeout(None)
            try:
                async with patience:
                    self._counted = self.bodies.begin(partial(patience.reschedule, 0.0))  # long ago
                    self._whole = await self._arrive(self._counted)
            except TimeoutError as error:
                raise BodyDroppedError from error
        return self._whole

    def claim_body(self, owner: Owner, drop: Callable[[], object]) -> None:
        """Tell whose the body is, and how what is done with it ends where its owner has too many bytes."""
        if self._counted is not None:
            self.bodies.claim(self._counted, owner, drop)

    def release_body(self) -> None:
        """Count the body no longer."""
        if self._counted is not None:
            self.bodies.release(self._counted)

    async def _arrive(self, counted: Body) -> bytes:
        body = bytearray()
        if self.headers.get("Expect", "").lower() == "100-continue" and self.version >= HttpVersion11:
            await self.writer.write(_GO_ON)
            self.writer.output_size = 0  # no answer is under way
        async for piece in pieces(self):
            body += piece
            if len(body) > self.bodies.each:
                raise web.HTTPRequestEntityTooLarge(self.bodies.each, len(body))
            self.bodies.grow(counted, len(piece))
        self.bodies.arrived(counted)
        self.complete()
        return bytes(body)
