"""Weights to take away: the adapter as peft and vLLM read it, encrypted where the caller asks for it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from muster.sessions.journal.store import Row
from muster.sessions.runs import paths, weights
from muster.sessions.seam import Refused
from muster.sessions.weights import encryption
from muster.sessions.weights.manifest import NAME

if TYPE_CHECKING:
    from muster.sessions.runs.models import Context

__all__ = ["files", "save"]


def files(folder: Path) -> list[str]:
    """Return the names of the files that may be fetched; the manifest is our own."""
    return sorted(each.name for each in folder.iterdir() if each.is_file() and each.name != NAME)


async def save(context: Context, model: Row, seq: int, asked: dict[str, Any], ask: weights.Ask) -> weights.Saved:
    """Have weights written.

    Args:
        context: of the Gateway.
        model: whose weights.
        seq: of the request, which names the folder, so that the request sent again writes the same one.
        asked: the request.
        ask: asks the engine.
    """
    checkpoint = paths.Checkpoint(model["id"], "external_weights", paths.checked(asked["path"]))
    folder = weights.place(context.config.root, "external_weights", model["id"], weights.number(context, seq))
    taken = "SELECT 1 FROM checkpoints WHERE path = ? AND folder <> ?"
    if await context.journal.row(taken, str(checkpoint), str(folder)):
        raise Refused(f"path: external weights {checkpoint.name!r} exist; delete them first, or pass another name")
    await weights.room(context, checkpoint, folder, asked["tenant"])
    to = asked.get("age_encryption_recipients") or []
    if to:
        await _encrypted(folder, seq, to, ask)
    else:
        await ask(seq, "save", orjson.dumps({"folder": str(folder), "optimizer": False}))
    size, keep = await weights.kept(context, checkpoint, folder, asked)
    result = {"path": str(checkpoint), "size_bytes": size, "type": "save_weights_external"}
    return weights.Saved(orjson.dumps(result), str(folder), keep)


async def _encrypted(folder: Path, seq: int, to: list[str], ask: weights.Ask) -> None:
    """Have the engine write beside, and encrypt from there; an earlier try that came to its end is not repeated."""
    plain = folder.with_name(f"{folder.name}.plain")
    if not await asyncio.to_thread(folder.exists):
        await ask(seq, "save", orjson.dumps({"folder": str(plain), "optimizer": False}))
        await asyncio.to_thread(lambda: encryption.encrypted(plain, files(plain), folder, to))
    await asyncio.to_thread(shutil.rmtree, plain, ignore_errors=True)
