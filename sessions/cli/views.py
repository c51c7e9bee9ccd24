"""What the journal and the engines say of a session, as JSON has it."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.sessions.cli.texts import moment
from muster.sessions.engines.client import Engine, LostError
from muster.sessions.journal.store import Journal, Row

__all__ = ["RATED", "view"]

RATED = 10
"""Steps over which tokens per second are counted."""
_STEPS = 60  # in a view
_ERRORS = 5
_WAITING = 20
_RUNS = 100
_ANSWERS = 2.0  # seconds that an engine has to answer
_FAILED = (
    "SELECT id, kind, category, result, finished FROM requests WHERE state = 'failed' AND target IN"
    " (SELECT id FROM models WHERE session = ? UNION ALL SELECT id FROM samplers WHERE session = ?)"
    " ORDER BY finished DESC, id LIMIT ?"
)
_SAMPLES = (
    "SELECT count(*) AS some, min(created) AS oldest FROM requests WHERE state = 'waiting'"
    " AND target IN (SELECT id FROM samplers WHERE session = ?)"
)
_MODELS = "SELECT * FROM models WHERE session = ? ORDER BY created DESC, id LIMIT ?"
_DONE = "SELECT * FROM steps WHERE target = ? AND at IS NOT NULL ORDER BY number DESC LIMIT ?"
_QUEUE = (
    "SELECT id, seq, kind, created FROM requests WHERE target = ? AND seq > ? AND state = 'waiting'"
    " ORDER BY seq LIMIT ?"
)
_QUEUED = "SELECT count(*) AS some FROM requests WHERE target = ? AND state = 'waiting'"
_KEPT = "SELECT count(*) AS some FROM checkpoints WHERE run = ?"
_LAST = "SELECT path FROM checkpoints WHERE run = ? ORDER BY created DESC, path LIMIT 1"


async def view(journal: Journal, root: Path, id_: str) -> dict[str, Any] | None:
    """Return all that is shown of a session; None when there is none of this id.

    Args:
        journal: of the Gateway.
        root: its folder, where the sockets of its engines are.
        id_: of the session.
    """
    row = await journal.row("SELECT * FROM sessions WHERE id = ?", id_)
    if row is None:
        return None
    used = await journal.rows("SELECT kind, sum(amount) AS some FROM usage WHERE session = ? GROUP BY kind", id_)
    folder = await _folder(journal, root)
    engines = {each: await _engine(folder, each) for each in ("trainer", "sampler")}
    runs = [await _run(journal, each, engines["trainer"]) for each in await journal.rows(_MODELS, id_, _RUNS)]
    failed = await journal.rows(_FAILED, id_, id_, _ERRORS)
    return {
        "version": 1,
        **_session(row),
        "used": {each["kind"]: int(each["some"]) for each in used},
        "engines": engines,
        "runs": runs[::-1],
        "samples": await _samples(journal, id_, engines["sampler"]),
        "errors": [_error(each) for each in failed],
    }


def _session(row: Row) -> dict[str, Any]:
    status, about = json.loads(row["status"]), json.loads(row["about"])
    return {
        "id": row["id"],
        "tenant": row["tenant"],
        "status": status["type"],
        "detail": status.get("detail"),
        "name": about.get("display_name"),
        "tags": about.get("tags") or [],
        "created": moment(row["created"]),
        "seen": moment(row["seen"]),
        "ended": _moment(row["ended"]),
    }


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)


async def _folder(journal: Journal, root: Path) -> Path:
    """Return where the sockets of the engines are: of several Gateways, those of the one that executes."""
    if not journal.is_shared:
        return root / "run"
    row = await journal.row("SELECT holder FROM leases WHERE name = 'engines'")
    return root / "run" / (row["holder"].rpartition(":")[0] if row else "")


async def _engine(folder: Path, name: str) -> str | None:
    """Return why an engine does not answer; None when it does."""
    engine = Engine(folder / f"{name}.sock")
    try:
        async with asyncio.timeout(_ANSWERS):
            await engine.state()
    except (LostError, TimeoutError):
        where = f"its Gateway does not run on this machine; see {folder / name}.log"
        return f"the {name} does not answer: it is starting, or {where}"
    finally:
        await engine.close()
    return None


async def _run(journal: Journal, model: Row, engine: str | None) -> dict[str, Any]:
    steps = [_step(each) for each in (await journal.rows(_DONE, model["id"], _STEPS))[::-1]]
    queued = await journal.row(_QUEUED, model["id"])
    kept, last = await journal.row(_KEPT, model["id"]), await journal.row(_LAST, model["id"])
    return {
        "id": model["id"],
        "base": model["base"],
        "rank": json.loads(model["lora"]).get("rank"),
        "created": moment(model["created"]),
        "unloaded": _moment(model["unloaded"]),
        "requests": max(model["done"], 0),  # -1 until the model is made
        "on_disk": model["snapshot"] if model["snapshot"] >= 0 else None,
        "steps": steps[-1]["number"] if steps else 0,
        "tokens_per_second": _rate(steps),
        "last_steps": steps,
        "checkpoints": kept["some"] if kept else 0,
        "last_checkpoint": last["path"] if last else None,
        "waiting": queued["some"] if queued else 0,
        "queue": _queue(await journal.rows(_QUEUE, model["id"], model["done"], _WAITING), model["done"], engine),
    }


def _step(row: Row) -> dict[str, Any]:
    metrics = {name: value if math.isfinite(value) else None for name, value in json.loads(row["metrics"]).items()}
    return {"number": row["number"], "at": row["at"], "tokens": row["tokens"], "metrics": metrics}


def _rate(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the tokens per second of the last steps; the first of them only tells when the second began."""
    last = steps[-RATED - 1 :]
    seconds = last[-1]["at"] - last[0]["at"] if last else 0
    return sum(each["tokens"] for each in last[1:]) / seconds if seconds > 0 else None


def _queue(rows: Sequence[Row], done: int, engine: str | None) -> list[dict[str, Any]]:
    queue: list[dict[str, Any]] = []
    before = done
    for row in rows:
        why = f"request {before} is before it" if queue else engine or "the trainer has it"
        if row["seq"] > before + 1:
            why = f"request {before + 1} has not arrived"
        queue.append({"seq": row["seq"], "kind": row["kind"], "since": moment(row["created"]), "why": why})
        before = row["seq"]
    return queue


async def _samples(journal: Journal, id_: str, engine: str | None) -> dict[str, Any]:
    row = await journal.row(_SAMPLES, id_)
    some, oldest = (row["some"], row["oldest"]) if row else (0, None)
    return {"waiting": some, "since": _moment(oldest), "why": (engine or "the sampler has them") if some else None}


def _error(row: Row) -> dict[str, Any]:
    told = bytes(row["result"] or b"").decode(errors="replace")
    at = moment(row["finished"])
    return {"request": row["id"], "kind": row["kind"], "category": row["category"], "at": at, "text": told}
