"""Losses that a client brings as a graph: not done on the server yet, so the client is told to compute them."""

from __future__ import annotations

from aiohttp import web

from muster.sessions.gateway.answers import members
from muster.sessions.seam import Refused

__all__ = ["routes"]

routes = web.RouteTableDef()


@routes.post("/api/v1/create_custom_loss")
async def create_custom_loss(request: web.Request) -> web.Response:
    """Refuse a graph. The client sends none, for `client/config` leaves `custom_loss_server_side` off."""
    await members(request)
    raise Refused("create_custom_loss: is not done on the server; forward_backward_custom computes it in the client")
