"""One call of the API server: sent, and its answer read, within one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from webhook.cluster import bodies, transports

__all__ = ["Call", "answered"]

_Read = TypeVar("_Read")


class Call(NamedTuple):
    """What is sent: a method, a path and, where there is one, a query and a body with its type."""

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
    shown: int = bodies.SHOWN,
) -> _Read:
    """Return what `read` makes of a successful answer.

    Args:
        sender: not closed here.
        call: what is sent.
        deadline: seconds for all of it, connection included.
        read: gets the response once it is known to be a success.
        shown: characters that are kept of the message of a refusal.

    Raises:
        RefusedError: the API server answered, and not with success.
        UnreachableError: there was no answer within the deadline.
        TransportError: what `read` raises.
    """
    patience = transports.Patience(deadline, deadline)
    try:
        async with (
            asyncio.timeout(deadline),
            sender.send(call.method, call.path, call.query, patience, call.body, call.content_type) as response,
        ):
            return await read(await bodies.checked(response, shown))
    except TimeoutError as error:
        what = f"{call.method} {call.path}"
        raise transports.UnreachableError(f"{what} was not answered within {deadline:g} s") from error
