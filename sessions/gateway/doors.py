"""Who may call: an API key or a token in `X-API-Key`, except where nothing is told or the link itself is signed."""

from __future__ import annotations

from aiohttp import web

from muster.sessions.gateway import identity
from muster.sessions.gateway.answers import Handler, json
from muster.sessions.gateway.scopes import needed
from muster.sessions.gateway.state import MANAGER, TOKENS
from muster.sessions.runs import tenants
from muster.sessions.tenancy import SHARE, Share

__all__ = ["door"]

_OPEN = frozenset({"/api/v1/healthz", "/api/v1/download"})
_LINKS = "/api/v1/download"
_OVER = "this link is over, or is none of this Gateway's; ask for a new one"
_SHOWN = 8  # last characters of a key or token that tell it from others
_RENEW = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
"""Has the client exchange its key again, once, when its token is over (tinker 0.38.0, `lib/_jwt_auth.py`)."""


@web.middleware
async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find the tenant of a key, or answer 401; 403 where the key is not for that."""
    if request.path in _OPEN:
        if request.path == _LINKS:
            await _linked(request)
        return await handler(request)
    # Whose it is shows below; until then nobody who asks with one key keeps others waiting.
    SHARE.set(Share(f"key {request.headers.get('X-API-Key', '')[-_SHOWN:]}"))
    right = await identity.right_of(request)
    if right is None and request.headers.get("X-API-Key", "").startswith("eyJ"):
        return json({"detail": "the token is over, or not of this Gateway; exchange the API key again"}, 401, _RENEW)
    if right is None:
        return json({"detail": "the API key is not known here; ask for one, and set TINKER_API_KEY"}, 401)
    scopes = needed(request.method, request.path)
    if scopes and not scopes & right.scopes:
        told = f"the API key {right.id} has no scope {' or '.join(sorted(scopes))}; ask for a key that has it"
        return json({"detail": told}, 403)
    SHARE.set(request.app[MANAGER].context.config.quotas.share(right.tenant))
    request["tenant"], request["key"], request["scopes"] = right.tenant, right.id, right.scopes
    request["key_expires"] = right.expires
    return await handler(request)


async def _linked(request: web.Request) -> None:
    """Find what a link is for, and whose rate and share it takes. Raises `HTTPForbidden` for one that is over."""
    context, told = request.app[MANAGER].context, request.app[TOKENS].read("download", request.query.get("token", ""))
    if told is None:
        raise web.HTTPForbidden(text=_OVER)
    SHARE.set(context.config.quotas.share(str(told.get("tenant"))))
    if await tenants.right_of_id(context.journal, str(told.get("key")), context.clock()) is None:
        raise web.HTTPForbidden(text=_OVER)
    request["tenant"], request["link"] = str(told.get("tenant")), told
