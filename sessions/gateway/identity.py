"""Who calls: an API key is exchanged for a token of short life, which says who its bearer is."""

from __future__ import annotations

from aiohttp import web

from muster.sessions.gateway.answers import json
from muster.sessions.gateway.state import MANAGER, TOKENS, caller
from muster.sessions.runs import tenants

__all__ = ["right_of", "routes"]

routes = web.RouteTableDef()
_SECONDS = 900  # the client renews a token after half its life


@routes.post("/api/v1/auth/token")
async def auth_token(request: web.Request) -> web.Response:
    """Answer a token of the caller. A token is answered with itself, so that none outlives its life."""
    secret, tenant = request.headers["X-API-Key"], caller(request)
    if secret.startswith("eyJ"):
        return json({"jwt": secret})
    told = {"org_id": tenant, "email": "", "key": request["key"]}
    return json({"jwt": request.app[TOKENS].issue("api", f"tml:user:{tenant}", _SECONDS, **told)})


async def right_of(request: web.Request) -> tenants.Right | None:
    """Return what a key or token opens; None when it is nobody's, and a token of a key that has ended is."""
    context, secret = request.app[MANAGER].context, request.headers.get("X-API-Key", "")
    if not secret.startswith("eyJ"):
        return await tenants.right_of(context.journal, secret, context.clock())
    told = request.app[TOKENS].read("api", secret)
    return await tenants.right_of_id(context.journal, str(told.get("key")), context.clock()) if told else None
