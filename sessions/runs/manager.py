"""All runs of a Gateway: models that work, samples that are answered, and what has come to its end."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import logging
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from muster.sessions.engines.client import FailedError, LostError
from muster.sessions.journal import entries, integrity
from muster.sessions.journal.places import journal_at
from muster.sessions.journal.store import AwayError, Journal, LostLeaseError
from muster.sessions.metrics import Metrics
from muster.sessions.platforms.engines import Pair
from muster.sessions.platforms.kubernetes import Pods
from muster.sessions.platforms.processes import Processes
from muster.sessions.readers.pool import Readers
from muster.sessions.runs import completions, endings, forgetting, leftovers, paths, weights
from muster.sessions.runs.config import Config
from muster.sessions.runs.futures import Futures
from muster.sessions.runs.locks import locked
from muster.sessions.runs.models import Context, Model
from muster.sessions.runs.samples import Samples
from muster.sessions.runs.terms import Elsewhere, Terms

__all__ = ["Manager"]

_LOG = logging.getLogger(__name__)
_CHECK = (
    30.0  # seconds in which the journal is looked through at the start; 1 GB takes 0.3 s from memory, 4 s from a disk
)
_REAP = 5.0  # seconds between looks for what has ended
_LEAST = 0.1  # seconds between two of them, however much is told
_WEIGH = 60.0  # seconds between looks at how many bytes of results there are
_SWEEP = 3600.0  # seconds between looks for folders that were left behind
_OVER = "JOIN sessions ON sessions.id = session WHERE ended IS NOT NULL"
_HELD_MODELS = f"SELECT models.id FROM models {_OVER} AND unloaded IS NULL"  # noqa: S608  # no value in it
_HELD_WEIGHTS = f"SELECT samplers.id, folder FROM samplers {_OVER} AND folder IS NOT NULL"  # noqa: S608  # as above
_HELD_INFLIGHT = (
    f"SELECT models.id, inflight, inflight_old FROM models {_OVER}"  # noqa: S608  # as above
    " AND (inflight IS NOT NULL OR inflight_old IS NOT NULL)"
)
_LEFT = (
    "SELECT requests.id FROM requests JOIN models ON models.id = requests.target"
    " WHERE models.unloaded IS NOT NULL AND requests.state = 'waiting'"
)
_LEFT_SAMPLES = (
    "SELECT requests.id FROM requests JOIN samplers ON samplers.id = requests.target"
    " JOIN sessions ON sessions.id = samplers.session WHERE sessions.ended IS NOT NULL AND requests.state = 'waiting'"
)


def _pair(config: Config, folder: Path, metrics: Metrics) -> Pair:
    """Return the engines: pods, or processes with sockets in a folder."""
    base = ["--base", str(config.base), *_turns(config, folder)]
    arguments = {
        "trainer": [
            *base,
            "--trainer",
            config.trainer,
            *(f"--trainer-option={each}" for each in config.trainer_options),
        ],
        "sampler": [
            *base,
            "--sampler",
            config.sampler,
            *(f"--sampler-option={each}" for each in config.sampler_options),
        ],
    }
    if config.pods is not None:
        return Pods(config.pods.settings, arguments, config.pods.access, metrics)
    return Processes(folder, arguments, metrics, {"trainer": config.trainer_python, "sampler": config.sampler_python})


def _turns(config: Config, folder: Path) -> list[str]:
    """Return what tells engines to take turns on a device: those of a Gateway are one session there.

    Replicas of a Gateway with pods have the same engines, and so the same name.
    """
    if config.device_lease is None:
        return []
    session = f"gateway-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    if config.pods is not None:
        session = config.pods.settings.gateway
    lease = ["--device-lease", str(config.device_lease), "--device-session", session]
    return [*lease, "--device-weight", str(config.device_weight)]


class Manager:
    """Starts engines, goes on with what the journal holds, ends what is over.

    Args:
        config: of the Gateway.
    """

    def __init__(self, config: Config) -> None:
        journal, metrics = journal_at(config.journal, config.root), Metrics()
        self._folder = config.root / "run" / config.replica if journal.is_shared else config.root / "run"
        self._pair = _pair(config, self._folder, metrics)
        readers = Readers(lambda tenant: config.quotas.of(tenant).reading_bodies)
        self.context = Context(config, journal, Futures(), self._pair.trainer, self._pair.sampler, metrics, readers)
        self.samples: Samples | Elsewhere = Elsewhere()
        self._models: dict[str, Model] = {}
        self._since: float | None = None  # when this process could hear heartbeats first
        self._working: Context | None = None
        holder = f"{config.replica}:{secrets.token_hex(8)}"
        self._terms = Terms(journal, holder, config.limits.lease, self._begin, self._stop)
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: IO[bytes] | None = None
        self._look = asyncio.Event()
        self._swept: float | None = None
        self._weighed: float | None = None

    async def start(self) -> None:
        """Open the journal, and go on with what waits, here or where another Gateway has the engines."""
        self._lock = locked(self._folder)
        journal = self.context.journal
        await journal.open()
        if not await journal.check(_CHECK):
            _LOG.warning(
                "the journal was looked through for %.0f s, and the rest of it is not known to be whole", _CHECK
            )
        await integrity.claim(journal, self.context.config.root)
        await journal.mark_open()
        if not journal.is_shared:
            await self._begin(journal, 0)
        works = (self._terms.keep(), journal.watch(self._told)) if journal.is_shared else ()
        self._tasks = [asyncio.create_task(each) for each in (*works, self._reap())]

    async def close(self) -> None:
        """Stop everything; what was accepted stays in the journal."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop()
        await self._terms.close()
        await self.context.readers.close()
        if not self.context.journal.is_shared:  # copies that were made while it served are older from now on
            with suppress(AwayError, ValueError, OSError):
                await integrity.claim(self.context.journal, self.context.config.root)
        await self.context.journal.close()
        if self._lock is not None:
            self._lock.close()

    async def _begin(self, journal: Journal, term: int) -> None:
        """Start the engines, go on with what waits."""
        self._working = dataclasses.replace(self.context, journal=journal, term=term)
        self.samples = Samples(self._working)
        await self._pair.start()
        await self._go_on()

    async def _stop(self) -> None:
        """Stop what works here."""
        if self._working is None:
            return
        self._working, models, samples = None, list(self._models.values()), self.samples
        self._models, self.samples = {}, Elsewhere()
        await asyncio.gather(*(each.close() for each in models))
        if isinstance(samples, Samples):
            await samples.close()
        await self._pair.close()

    async def _go_on(self) -> None:
        """Have here what the journal has: requests and ends that nobody told of."""
        if (working := self._working) is None or not isinstance(samples := self.samples, Samples):
            return
        held = list(self._models)  # before it is asked which there are: one may be made meanwhile
        known = {row["id"] for row in await working.journal.rows("SELECT id FROM models WHERE unloaded IS NULL")}
        for model in [each for each in held if each not in known]:
            await self._forget(model)
        waiting = "SELECT DISTINCT target FROM requests WHERE state = 'waiting' AND kind <> 'sample'"
        for row in await working.journal.rows(waiting):
            if row["target"] in known:
                self.model(row["target"]).wake()
        await samples.resume()

    def _told(self, notice: str | None) -> None:
        """Take what the journal tells of other Gateways, and of this one."""
        what, _, rest = (notice or "").partition(" ")
        if what == "ended":
            self.context.futures.ended(rest)
        elif what == "new":
            kind, _, id_ = rest.partition(" ")
            self.samples.begin(id_) if kind == "sample" else self.model(id_.rpartition(":")[0]).wake()
        elif what == "":
            self.context.futures.all()
            self._look.set()
        else:
            self._look.set()

    def model(self, id_: str) -> Model | Elsewhere:
        """Return what executes the requests of a model."""
        if self._working is None:
            return Elsewhere()
        if id_ not in self._models:
            self._models[id_] = Model(self._working, id_)
        return self._models[id_]

    def waits_for(self, kind: str) -> str | None:
        """Return why requests of a kind have to wait for an engine at the moment; None when they need not."""
        if self._working is None:
            return None if self._terms.is_elsewhere else "no Gateway has engines at the moment; one takes over soon"
        engine = self.context.sampler if kind == "sample" else self.context.trainer
        return engine.waits_for or None

    async def end(self, session: str, status: dict[str, Any], silent: float = endings.EVER) -> bool:
        """End a session and free what its models hold; False as `endings.end` says."""
        if not await endings.end(self.context.journal, session, status, self.context.clock(), silent):
            return False
        await self._free()
        return True

    async def _free(self) -> None:
        """Free what sessions hold that have ended, of which an earlier process may have freed a part."""
        journal = self.context.journal
        for row in await journal.rows(_HELD_MODELS):
            await self.unload(row["id"])
        for row in await journal.rows(_HELD_WEIGHTS):
            await journal.execute("UPDATE samplers SET folder = NULL WHERE id = ?", row["id"])
            await weights.remove(journal, row["folder"])
        for row in await journal.rows(_HELD_INFLIGHT):
            await journal.execute("UPDATE models SET inflight = NULL, inflight_old = NULL WHERE id = ?", row["id"])
            for folder in filter(None, (row["inflight"], row["inflight_old"])):
                await weights.remove(journal, folder)
        for row in await journal.rows(_LEFT):
            await journal.run(entries.given_up, row["id"], entries.UNLOADED, "user", self.context.clock())
            self.context.futures.ended(row["id"])
        for row in await journal.rows(_LEFT_SAMPLES):
            told = "the session of this sample has ended; begin a new one"
            self.samples.cancel(row["id"])
            await journal.run(completions.failed, row["id"], told, "user", self.context.clock())
            self.context.futures.ended(row["id"])

    async def unload(self, model: str) -> None:
        """Free what a model holds. What waits for it fails; its checkpoints stay."""
        for id_ in await self.context.journal.run(entries.unload, model, self.context.clock()):
            self.context.futures.ended(id_)
        await self._forget(model)

    async def _forget(self, model: str) -> None:
        """Stop to work on a model, and have the engine forget it."""
        if model in self._models:
            await self._models.pop(model).close()
        with suppress(LostError, FailedError):
            if self.context.trainer.is_up:
                await self.context.trainer.engine.unload(model)
        await self._clear(model)

    async def _clear(self, model: str) -> None:
        folder = paths.folder_of(self.context.config.root / "snapshots", model)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _reap(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_REAP):
                    await self._look.wait()
            self._look.clear()
            try:
                await self._go_on()
                if self._working is not None:
                    await self.reap()
            except (AwayError, LostLeaseError) as error:
                _LOG.warning("what has ended could not be removed: %s; it is tried again", error)
            except Exception:  # noqa: BLE001  # tried again
                _LOG.exception("what has ended could not be removed; it is tried again")
            await asyncio.sleep(_LEAST)

    async def reap(self) -> None:
        """End sessions without heartbeat, delete checkpoints that have expired, forget results that nobody fetches."""
        journal, limits, now = self.context.journal, self.context.config.limits, self.context.clock()
        await self._free()
        self._since = now if self._since is None else self._since
        query = "SELECT id FROM sessions WHERE ended IS NULL AND seen < ?"
        silent = now - limits.heartbeat
        for row in await journal.rows(query, silent) if self._since < silent else ():
            detail = f"no heartbeat for {limits.heartbeat:.0f} s"
            # Others took their time to end, and meanwhile it may have been heard of.
            await self.end(row["id"], {"type": "cancelled", "detail": detail}, silent)
        for row in await journal.rows("SELECT path FROM checkpoints WHERE expires < ?", now):
            await endings.expire(journal, row, now)
        await forgetting.records(journal, now - limits.records)
        await forgetting.answers(journal, now - limits.retained)
        if self._weighed is None or now - self._weighed > _WEIGH:
            self._weighed = now
            for tenant in await forgetting.surplus(journal, self.context.config.quotas):
                _LOG.warning("the oldest results of %s went, because there are more of them than may be", tenant)
        if self._swept is None or now - self._swept > _SWEEP:
            self._swept = now
            if left := await leftovers.sweep(journal, self.context.config.root):
                _LOG.warning("removed %s folders of weights that nothing names, such as %s", len(left), left[0])
