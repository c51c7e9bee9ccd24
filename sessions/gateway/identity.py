"""Who calls: an API key is exchanged for a token of short life, which says who its bearer is."""

from __future__ import annotations

from aiohttp import web

from sessions.gateway.answers import json
from sessions.gateway.state import MANAGER, TOKENS, caller
from sessions.runs import tenants

__all__ = ["routes", "tenant_of"]

routes = web.RouteTableDef()
_SECONDS = 900  # the client renews a token after half its life


@routes.post("/api/v1/auth/token")
async def auth_token(request: web.Request) -> web.Response:
    """Answer a token of the caller. A token is answered with itself, so that none outlives its life."""
    secret, tenant = request.headers["X-API-Key"], caller(request)
    if secret.startswith("eyJ"):
        return json({"jwt": secret})
    key = await tenants.id_of(request.app[MANAGER].context.journal, secret)
    told = {"org_id": tenant, "email": "", "key": key}
    return json({"jwt": request.app[TOKENS].issue("api", f"tml:user:{tenant}", _SECONDS, **told)})


async def tenant_of(request: web.Request) -> str | None:
    """Return whose key or token a request has; None when it is nobody's, and a token of a key that has ended is."""
    journal, secret = request.app[MANAGER].context.journal, request.headers.get("X-API-Key", "")
    if not secret.startswith("eyJ"):
        return await tenants.tenant_of(journal, secret)
    told = request.app[TOKENS].read("api", secret)
    return await tenants.tenant_of_id(journal, str(told.get("key"))) if told else None
