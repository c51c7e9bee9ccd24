"""One call of the API server: the request is sent and its answer read within one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from muster.kube import payloads, transports

__all__ = ["Call", "answered", "document"]

_Read = TypeVar("_Read")


class Call(NamedTuple):
    """A request: a method, a path and optionally a query and a body with its media type."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = "application/json"


async def answered(
    sender: transports.Sender,
    call: Call,
    deadline: float,
    read: Callable[[transports.Response], Awaitable[_Read]],
    shown: int = payloads.SHOWN,
) -> _Read:
    """Send a request, and return what `read` makes of a successful answer.

    Args:
        sender: a connection to the API server; not closed here.
        call: the request.
        deadline: seconds for the whole call, connection included.
        read: called with a successful response.
        shown: characters of a refusal's message that are kept.

    Raises:
        RefusedError: the API server answered with an error.
        UnreachableError: there was no answer within the deadline.
        TransportError: `read` raised it.
    """
    patience = transports.Patience(deadline, deadline)
    try:
        async with (
            asyncio.timeout(deadline),
            sender.send(call.method, call.path, call.query, patience, call.body, call.content_type) as response,
        ):
            return await read(await payloads.checked(response, shown))
    except TimeoutError as error:
        what = f"{call.method} {call.path}"
        raise transports.UnreachableError(f"{what} was not answered within {deadline:g} s") from error


async def document(  # noqa: PLR0913 - a call, and what its answer may be
    sender: transports.Sender, call: Call, deadline: float, limit: int, what: str = "", shown: int = payloads.SHOWN
) -> dict[str, Any]:
    """Send a request, and return the JSON object that answers it.

    Args:
        sender: a connection to the API server; not closed here.
        call: the request.
        deadline: seconds for the whole call, connection included.
        limit: the most bytes of the answer.
        what: how errors call the answer; by default by method and path.
        shown: characters of a refusal's message that are kept.

    Raises:
        TransportError: as `answered` and `payloads.read` raise it.
    """
    name = what or f"{call.method} {call.path}"
    return await answered(sender, call, deadline, lambda answer: payloads.read(answer, limit, name), shown)
