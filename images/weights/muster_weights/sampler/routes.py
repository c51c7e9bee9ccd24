"""Routes beside vLLM's own of its development mode: the lease, what is served, the verification of a version, adapters.

When a lease ends while the server is paused, its trainer is dead: the server goes on, with whole weights, because a
version is loaded in one piece.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request
from vllm.logger import init_logger

from muster_weights import names
from muster_weights.refusals import Refused
from muster_weights.sampler import deaths, endings
from muster_weights.sampler.leases import Lease
from muster_weights.sampler.loading import Loading

__all__ = ["add"]

_logger = init_logger(f"vllm.{__name__}")
_MOST = 4096  # bytes of a body
_GUARDED = {"/init_weight_transfer_engine": "init_info", "/update_weights": "update_info"}
_lease = Lease()
_changed = asyncio.Event()
_watches: set[asyncio.Task[None]] = set()
_loading: list[Loading] = []
_turn = asyncio.Lock()


def add(router: APIRouter) -> None:
    """Add the routes, and ask for the lease where vLLM's own routes change whose weights are served."""
    for route in router.routes:
        if getattr(route, "path", None) in _GUARDED:
            route.dependencies.append(Depends(_held))
    router.add_api_route("/muster_weights", _state, methods=["GET"])
    router.add_api_route("/muster_weights/lease", _renew, methods=["POST"])
    router.add_api_route("/muster_weights/release", _release, methods=["POST"])
    router.add_api_route("/muster_weights/stage", _stage, methods=["POST"])
    router.add_api_route("/muster_weights/adapters", _adapter, methods=["POST"])
    router.add_api_route("/muster_weights/adapters/keep", _keep, methods=["POST"])


async def _state(request: Request) -> dict[str, Any]:
    """What is served, and who holds the lease."""
    served = await _ask(request, "state", {})
    loaded = _loading[0].served if _loading else []
    return {**served, "holder": _lease.run, "left": round(_lease.left, 1), "adapters": loaded}


async def _renew(request: Request) -> dict[str, Any]:
    """Take or keep the lease; answers as `_state` does."""
    body = await _body(request)
    seconds = body.get("seconds")
    try:
        _lease.renew(names.valid(body.get("run")), float(seconds) if isinstance(seconds, int | float) else 0.0)
    except Refused as reason:
        raise HTTPException(409, str(reason)) from reason
    _watch(request)
    deaths.watch(request.app.state.engine_client)
    return await _state(request)


async def _release(request: Request) -> dict[str, Any]:
    """Give the lease back, and unload the adapters of its run."""
    released = _lease.release(str((await _body(request)).get("run")))
    if released:
        await _unload()
    return {"released": released}


async def _stage(request: Request) -> dict[str, Any]:
    """Verify a version while the old one serves; to be asked again until it is `verified` or `refused`."""
    body = await _body(request)
    try:
        _lease.held_by(names.told(body).run)
    except Refused as reason:
        return {"state": "refused", "reason": str(reason)}
    return await _ask(request, "stage", body)


async def _adapter(request: Request) -> dict[str, Any]:
    """Verify an adapter while others serve, then load it; to be asked again until it is `loaded` or `refused`.

    Nothing is paused: requests that run go on with the adapter that they named.
    """
    body = await _body(request)
    try:
        told = names.told(body)
        _lease.held_by(told.run)
        async with _turn:
            found = await _ask(request, "copy", asdict(told))
            if found.get("state") == "copied":
                await _loader(request).load(told, str(found["path"]))
                await _ask(request, "served", asdict(told))
                return {"state": "loaded"}
    except Refused as reason:
        return {"state": "refused", "reason": str(reason)}
    return found if "state" in found else {"state": "refused", "reason": "the workers of this server do not agree"}


async def _keep(request: Request) -> dict[str, Any]:
    """Unload the adapters of all others than `run`, and those of its versions that are older than `oldest`."""
    body = await _body(request)
    try:
        run, oldest = names.valid(body.get("run")), body.get("oldest")
        _lease.held_by(run)
    except Refused as reason:
        raise HTTPException(409, str(reason)) from reason
    async with _turn:
        await _loader(request).keep(run, oldest if isinstance(oldest, int) else 0)
        return {"adapters": _loader(request).served}


async def _unload() -> None:
    async with _turn:
        for each in _loading:
            await each.keep(None, 0)


def _loader(request: Request) -> Loading:
    """Return what loads adapters, which this process has once."""
    state = request.app.state
    if not _loading:
        _loading.append(
            Loading(state.openai_serving_models, state.engine_client, lambda told: _ask(request, "drop", asdict(told)))
        )
    return _loading[0]


async def _held(request: Request) -> None:
    if not _ours(request):
        return
    body = await _body(request)
    asked = body.get(_GUARDED[request.url.path])
    try:
        _lease.held_by(names.valid(asked.get("run") if isinstance(asked, dict) else None))
    except Refused as reason:
        raise HTTPException(409, str(reason)) from reason


async def _ask(request: Request, command: str, told: dict[str, Any]) -> dict[str, Any]:
    """Ask all workers; the one that is behind speaks for them."""
    if not _ours(request):
        flag = f'--weight-transfer-config \'{{"backend": "{names.BACKEND}"}}\''
        raise HTTPException(501, f"this server does not take weights by files: start it with {flag}")
    found = await request.app.state.engine_client.collective_rpc("muster_weights", args=(command, told))
    for state in ("refused", "missing", "verifying"):
        for each in found:
            if each.get("state") == state:
                return dict(each)
    return dict(found[0]) if all(each == found[0] for each in found) else {"run": None, "version": None, "digest": None}


def _ours(request: Request) -> bool:
    """Whether this server takes weights by files; vLLM's other backends are left as they are."""
    config = request.app.state.engine_client.vllm_config.weight_transfer_config
    return config is not None and config.backend == names.BACKEND


async def _body(request: Request) -> dict[str, Any]:
    if int(request.headers.get("content-length", _MOST + 1)) > _MOST:
        raise HTTPException(413, f"the body has over {_MOST} bytes")
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError) as fault:
        raise HTTPException(400, "the body is not JSON") from fault
    return found if isinstance(found, dict) else {}


def _watch(request: Request) -> None:
    """Look at the lease until it has ended; one watch at a time, which is told of each change."""
    _changed.set()
    if not _watches:
        task = asyncio.get_running_loop().create_task(_wait(request.app.state.engine_client))
        _watches.add(task)
        task.add_done_callback(_watches.discard)


async def _wait(engine: Any) -> None:
    while (left := _lease.left) > 0:
        _changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_changed.wait(), left)
    if _lease.run is None:
        return
    _logger.warning("muster: the trainer of %s is gone: its lease has ended", _lease.run)
    _lease.release(_lease.run)
    await _unload()
    try:
        if await engine.is_paused():
            await engine.resume_generation()
            _logger.warning("muster: it had left this server paused, which goes on now")
    except Exception as fault:  # noqa: BLE001  # an engine that cannot go on must be started again
        endings.leave(f"weights by files: a dead trainer left this server paused, and it cannot go on: {fault!r}"[:500])
