"""What connections to a Gateway may cost: however many are opened, with or without a key, keep nobody out."""

from __future__ import annotations

from aiohttp import web

from muster.front.connections import Limits, State
from muster.front.listeners import connection_of, doubt
from muster.sessions.gateway.answers import Handler, json

__all__ = ["LIMITS", "SCRAPES", "counted"]

LIMITS = Limits(connections=16_384, slow=30.0, idle=3630.0, reserved=512)
"""A client may have 2,000 polls under way, and engines and the journal have connections of their own."""
SCRAPES = Limits(connections=64, slow=30.0)
"""Of the port of metrics."""
_BAD = 400


@web.middleware
async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note that a connection has a request. After one whose end is in doubt there is no other."""
    if doubtful := doubt(request):
        refused = json({"detail": doubtful}, _BAD)
        refused.force_close()
        return refused
    connection = connection_of(request)
    connection.enter(State.BUSY)
    status = _BAD
    try:
        answer = await handler(request)
        status = answer.status
    finally:
        connection.enter(State.FRESH if status >= _BAD else State.KEPT)
    return answer
