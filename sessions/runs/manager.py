"""All runs of a Gateway: models that work, samples that are answered, and what has come to its end."""

from __future__ import annotations

import asyncio
import logging
import shutil
from contextlib import suppress

import orjson

from sessions.engines.client import FailedError, LostError
from sessions.journal import entries
from sessions.journal.store import Journal
from sessions.platforms.processes import Process
from sessions.runs import events, paths, weights
from sessions.runs.config import Config
from sessions.runs.futures import Futures
from sessions.runs.models import Context, Model
from sessions.runs.samples import Samples

__all__ = ["Manager"]

_LOG = logging.getLogger(__name__)
_REAP = 5.0  # seconds between looks for what has ended
_OVER = "JOIN sessions ON sessions.id = session WHERE ended IS NOT NULL"
_HELD_MODELS = f"SELECT models.id FROM models {_OVER} AND unloaded IS NULL"  # noqa: S608  # no value in it
_HELD_WEIGHTS = f"SELECT samplers.id, folder FROM samplers {_OVER} AND folder IS NOT NULL"  # noqa: S608  # as above
_LEFT = (
    "SELECT requests.id FROM requests JOIN models ON models.id = requests.target"
    " WHERE models.unloaded IS NOT NULL AND requests.state = 'waiting'"
)


class Manager:
    """Starts engines, goes on with what the journal holds, ends what is over.

    Args:
        config: of the Gateway.
    """

    def __init__(self, config: Config) -> None:
        run = config.root / "run"
        base = ["--base", str(config.base)]
        sampler = ["--sampler", config.sampler, *(f"--sampler-option={each}" for each in config.sampler_options)]
        self.context = Context(
            config,
            Journal(config.root / "journal.sqlite"),
            Futures(),
            Process("trainer", run, [*base, "--trainer", config.trainer]),
            Process("sampler", run, [*base, *sampler], config.sampler_python),
        )
        self.samples = Samples(self.context)
        self._models: dict[str, Model] = {}
        self._reaper: asyncio.Task[None] | None = None
        self._since: float | None = None  # when this process could hear heartbeats first

    async def start(self) -> None:
        """Open the journal, start the engines, go on with what waits."""
        await self.context.journal.open()
        await self.context.trainer.start()
        await self.context.sampler.start()
        for row in await self.context.journal.rows("SELECT id FROM models WHERE unloaded IS NULL"):
            self.model(row["id"])
        await self.samples.resume()
        self._reaper = asyncio.create_task(self._reap())

    async def close(self) -> None:
        """Stop everything; what was accepted stays in the journal."""
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.gather(self._reaper, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self._models.values()), self.samples.close())
        await asyncio.gather(self.context.trainer.close(), self.context.sampler.close())
        await self.context.journal.close()

    def model(self, id_: str) -> Model:
        """Return what executes the requests of a model."""
        if id_ not in self._models:
            self._models[id_] = Model(self.context, id_)
        return self._models[id_]

    async def end(self, session: str, status: object) -> bool:
        """End a session and free what its models hold; False when it has ended before."""
        journal, now = self.context.journal, self.context.clock()
        update = "UPDATE sessions SET ended = ?, status = ? WHERE id = ? AND ended IS NULL"
        if not await journal.execute(update, now, orjson.dumps(status).decode(), session):
            return False
        await self._free()
        owner = await journal.row("SELECT tenant FROM sessions WHERE id = ?", session)
        if owner is not None:
            await events.note(journal, owner["tenant"], "session_ended", now, session_id=session, status=status)
        return True

    async def _free(self) -> None:
        """Free what sessions hold that have ended, of which an earlier process may have freed a part."""
        journal = self.context.journal
        for row in await journal.rows(_HELD_MODELS):
            await self.unload(row["id"])
        for row in await journal.rows(_HELD_WEIGHTS):
            await journal.execute("UPDATE samplers SET folder = NULL WHERE id = ?", row["id"])
            await weights.remove(journal, row["folder"])
        for row in await journal.rows(_LEFT):
            told = "the model was unloaded before this request"
            await journal.run(entries.given_up, row["id"], told, "user", self.context.clock())
            self.context.futures.ended(row["id"])

    async def unload(self, model: str) -> None:
        """Free what a model holds. What waits for it fails; its checkpoints stay."""
        context = self.context
        if model in self._models:
            await self._models.pop(model).close()
        with suppress(LostError, FailedError):
            if context.trainer.is_up:
                await context.trainer.engine.unload(model)
        now = context.clock()
        await context.journal.execute("UPDATE models SET unloaded = ? WHERE id = ?", now, model)
        waiting = await context.journal.rows("SELECT id FROM requests WHERE target = ? AND state = 'waiting'", model)
        for row in waiting:
            told = "the model was unloaded before this request"
            await context.journal.run(entries.given_up, row["id"], told, "user", now)
            context.futures.ended(row["id"])
        await context.journal.execute("UPDATE requests SET body = NULL WHERE target = ?", model)
        await context.journal.execute("DELETE FROM layouts WHERE target = ?", model)
        folder = paths.folder_of(context.config.root / "snapshots", model)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_REAP)
            try:
                await self.reap()
            except Exception:  # noqa: BLE001  # tried again
                _LOG.exception("what has ended could not be removed; it is tried again")

    async def reap(self) -> None:
        """End sessions without heartbeat, delete checkpoints that have expired, forget results that nobody fetches."""
        journal, limits, now = self.context.journal, self.context.config.limits, self.context.clock()
        await self._free()
        self._since = now if self._since is None else self._since
        query = "SELECT id FROM sessions WHERE ended IS NULL AND seen < ?"
        silent = now - limits.heartbeat
        for row in await journal.rows(query, silent) if self._since < silent else ():
            detail = f"no heartbeat for {limits.heartbeat:.0f} s"
            await self.end(row["id"], {"type": "cancelled", "detail": detail})
        for row in await journal.rows("SELECT path, folder, tenant FROM checkpoints WHERE expires < ?", now):
            await journal.execute("DELETE FROM checkpoints WHERE path = ? AND expires < ?", row["path"], now)
            await weights.remove(journal, row["folder"])
            await events.note(journal, row["tenant"], "checkpoint_expired", now, tinker_path=row["path"])
        await journal.execute("DELETE FROM events WHERE at < ?", now - limits.records)
        await journal.execute("DELETE FROM usage WHERE hour < ?", now - limits.records)
        old = "DELETE FROM requests WHERE state <> 'waiting' AND finished < ? AND body IS NULL"
        await journal.execute(old, now - limits.retained)
        await journal.execute("DELETE FROM completions WHERE request NOT IN (SELECT id FROM requests)")
        # The body of a sample is of no use once it is answered.
        await journal.execute(
            "UPDATE requests SET body = NULL WHERE kind = 'sample' AND state <> 'waiting' AND body IS NOT NULL"
        )
