"""Weights of runs on disk: where they lie, who may read them, what the journal knows of them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from muster.sessions.journal.store import Connection, Journal, Row
from muster.sessions.runs import events, paths, quotas
from muster.sessions.seam import Refused

if TYPE_CHECKING:
    from muster.sessions.runs.models import Context

__all__ = [
    "Ask",
    "Past",
    "Saved",
    "check_fit",
    "kept",
    "loadable",
    "number",
    "place",
    "readable",
    "remove",
    "room",
    "save",
]

_INSERT = (
    "INSERT INTO checkpoints (path, run, tenant, folder, size, created, expires, metadata)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET folder = excluded.folder,"
    " size = excluded.size, created = excluded.created, expires = excluded.expires, metadata = excluded.metadata,"
    " public = 0"
)
_SAMPLER = (
    "INSERT INTO samplers (id, session, base, folder, model, created) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_NAMED = (
    "SELECT 1 FROM samplers WHERE folder = ? UNION ALL SELECT 1 FROM checkpoints WHERE folder = ?"
    " UNION ALL SELECT 1 FROM models WHERE inflight = ? OR inflight_old = ?"
)
_LIKE = "SELECT max(size) FROM checkpoints WHERE run = ? AND path LIKE ?"
Ask = Callable[[int, str, bytes], Awaitable[tuple[bytes, str]]]


class Past(NamedTuple):
    """What is to be done after a transaction: folders that may have lost their last name, and what to tell."""

    folders: tuple[str, ...] = ()
    events: tuple[events.Event, ...] = ()


class Saved(NamedTuple):
    """Weights on disk that nothing names yet.

    Attributes:
        body: the result of the request, as JSON.
        folder: of the weights.
        keep: gives them their name, in the transaction in which the request ends; `Refused` where they may not be kept.
    """

    body: bytes
    folder: str
    keep: Callable[[Connection], Past]


def place(root: Path, kind: str, run: str, name: str) -> Path:
    """Return the folder of weights."""
    return paths.folder_of(root / kind, run, name)


async def readable(journal: Journal, path: str, tenant: str) -> Row:
    """Return the checkpoint at a path. Raises `Refused` where there is none, or none that the tenant may read."""
    row = await journal.row("SELECT * FROM checkpoints WHERE path = ?", str(paths.parsed(path)))
    if row is None or (row["tenant"] != tenant and not row["public"]):
        raise Refused(f"path: {path[:200]}: there are no such weights, or they are not yours")
    return row


async def loadable(journal: Journal, path: str, tenant: str) -> Row:
    """Return a checkpoint that an engine can load. Raises `Refused` as `readable` does, and for external weights."""
    row = await readable(journal, path, tenant)
    if paths.parsed(row["path"]).kind == "external_weights":
        raise Refused(f"path: {path[:200]}: external weights are to be taken away; save others to load or sample from")
    return row


async def check_fit(journal: Journal, source: Row, model: Row) -> None:
    """Check that a checkpoint has the layers and the rank of a model. Raises `Refused`, for get_info would be wrong."""
    origin = await journal.row("SELECT lora FROM models WHERE id = ?", source["run"])
    has, wants = ({**json.loads(each["lora"]), "seed": None} for each in (origin or model, model))
    if differing := sorted(key for key in wants if has.get(key) != wants[key]):
        told = ", ".join(f"{key} {has.get(key)} and not {wants[key]}" for key in differing)
        raise Refused(f"path: these weights have {told}; make a client with create_training_client_from_state")


async def save(  # noqa: PLR0913  # what a request to save is made of
    context: Context, model: Row, seq: int, kind: str, asked: dict[str, Any], ask: Ask
) -> Saved:
    """Have weights written.

    Args:
        context: of the Gateway.
        model: whose weights.
        seq: of the request, which names the folder, so that the request sent again writes the same one.
        kind: `save_weights` or `save_weights_for_sampler`.
        asked: the request.
        ask: asks the engine.
    """
    full, given = kind == "save_weights", asked.get("path")
    name = paths.checked(given or "") if full or given is not None else None  # a sampling session needs no name
    checkpoint = paths.Checkpoint(model["id"], "weights" if full else "sampler_weights", name) if name else None
    folder = place(context.config.root, "weights" if full else "sampler_weights", model["id"], number(context, seq))
    if checkpoint and full and not asked.get("overwrite"):
        await _free(context.journal, checkpoint, folder)
    if checkpoint:
        await room(context, checkpoint, folder, asked["tenant"])
    await ask(seq, "save", orjson.dumps({"folder": str(folder), "optimizer": full}))
    if checkpoint is None:
        return _sampler(context, model, folder, asked)
    _, keep = await kept(context, checkpoint, folder, asked)
    return Saved(orjson.dumps({"path": str(checkpoint), "type": kind}), str(folder), keep)


def number(context: Context, seq: int) -> str:
    """Return the name of a folder into which no engine of an earlier term can still be writing."""
    return f"{seq}.{context.term}" if context.term else str(seq)


async def _free(journal: Journal, checkpoint: paths.Checkpoint, folder: Path) -> None:
    query = "SELECT 1 FROM checkpoints WHERE path = ? AND folder <> ?"
    if await journal.row(query, str(checkpoint), str(folder)):
        raise Refused(f"path: a checkpoint {checkpoint.name!r} exists; pass overwrite=True, or another name")


async def room(context: Context, checkpoint: paths.Checkpoint, folder: Path, tenant: str) -> None:
    """Look before weights are written whether as many as the run had before may still be kept. Raises `Refused`."""
    like = await context.journal.row(_LIKE, checkpoint.run, f"tinker://%/{checkpoint.kind}/%")
    quota, size = context.config.quotas.of(tenant), int(like[0] or 0) if like else 0

    def look(connection: Connection) -> None:
        # Those that the new ones replace are still there while they are written.
        quotas.has_room(connection, tenant, quota, "", str(folder), size)
        if not _folders(connection, str(checkpoint)):
            quotas.record(connection, tenant, quota, 1)

    await context.journal.run(look)


async def kept(
    context: Context, checkpoint: paths.Checkpoint, folder: Path, asked: dict[str, Any]
) -> tuple[int, Callable[[Connection], Past]]:
    """Return the bytes of weights, and what gives them a name; those that had it before go."""
    size, tenant, path = await asyncio.to_thread(_size, folder), str(asked["tenant"]), str(checkpoint)
    ttl, metadata = asked.get("ttl_seconds"), asked.get("user_metadata")
    quota = context.config.quotas.of(tenant)

    def keep(connection: Connection) -> Past:
        now = context.clock()
        quotas.has_room(connection, tenant, quota, path, str(folder), size)
        old = _folders(connection, path)
        text = json.dumps(metadata) if metadata else None
        values = (path, checkpoint.run, tenant, str(folder), size, now, now + ttl if ttl else None, text)
        connection.execute(_INSERT, values)
        event = events.keep(connection, tenant, "checkpoint_saved", now, tinker_path=path)
        if not old:
            quotas.record(connection, tenant, quota)
        return Past(tuple(each for each in old if each != str(folder)), (event,))

    return size, keep


def _folders(connection: Connection, path: str) -> list[str]:
    """Return the folder of a checkpoint; none where there is no such checkpoint."""
    return [
        row["folder"] for row in connection.execute("SELECT folder FROM checkpoints WHERE path = ?", (path,)).fetchall()
    ]


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def _sampler(context: Context, model: Row, folder: Path, asked: dict[str, Any]) -> Saved:
    """Return the sampling session that weights without a name are asked for with."""
    inflight, tenant = asked.get("kind") == "inflight", str(asked["tenant"])
    id_ = f"{model['session']}:sample:{asked['sampling_session_seq_id']}"
    own = (None, model["id"]) if inflight else (str(folder), None)

    def keep(connection: Connection) -> Past:
        quotas.hold(connection, tenant)
        values = (id_, model["session"], model["base"], *own, context.clock())
        if connection.execute(_SAMPLER, values).rowcount:
            quotas.record(connection, tenant, context.config.quotas.of(tenant))
        else:
            known = connection.execute("SELECT folder, model FROM samplers WHERE id = ?", (id_,)).fetchone()
            if tuple(known) != own:
                raise Refused(f"sampling_session_seq_id: {id_}: is of another sampling session; take the next number")
        return _moved(connection, model["id"], str(folder)) if inflight else Past()

    return Saved(orjson.dumps({"sampling_session_id": id_, "type": "save_weights_for_sampler"}), str(folder), keep)


def _moved(connection: Connection, model: str, folder: str) -> Past:
    """Have sampling sessions of kind inflight go on with other weights; those before may still be read."""
    held = connection.execute("SELECT inflight, inflight_old FROM models WHERE id = ?", (model,)).fetchone()
    if held["inflight"] == folder:
        return Past()
    update = "UPDATE models SET inflight = ?, inflight_old = ? WHERE id = ?"
    connection.execute(update, (folder, held["inflight"], model))
    return Past((held["inflight_old"],)) if held["inflight_old"] else Past()


async def remove(journal: Journal, folder: str) -> None:
    """Remove a folder of weights that nothing names and nobody samples from."""
    if await journal.row(_NAMED, *[folder] * 4) is None:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
