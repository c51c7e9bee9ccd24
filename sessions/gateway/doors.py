"""Who may call: an API key in `X-API-Key`, except where nothing is told."""

from __future__ import annotations

from aiohttp import web

from sessions.gateway.answers import Handler, json
from sessions.gateway.state import MANAGER
from sessions.runs import tenants

__all__ = ["door"]

_OPEN = frozenset({"/api/v1/healthz"})


@web.middleware
async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find the tenant of a key, or answer 401."""
    if request.path in _OPEN:
        return await handler(request)
    tenant = await tenants.tenant_of(request.app[MANAGER].context.journal, request.headers.get("X-API-Key", ""))
    if tenant is None:
        return json({"detail": "the API key is not known here; ask for one, and set TINKER_API_KEY"}, 401)
    request["tenant"] = tenant
    return await handler(request)
