"""One model of a run: its requests in the order of their numbers, through the ends of engines.

What is promised when a trainer dies with gradients in memory: nothing is lost. The weights and the optimizer are on
disk after each optimizer step; the passes since then are in the journal and run again, in the same order, before the
next request. On a CPU that gives the same bits. A request at which engines die three times fails, with the category
`server`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from muster.sessions.engines.client import FailedError, LostError
from muster.sessions.engines.turns import ALONE
from muster.sessions.journal import entries, layouts, progress
from muster.sessions.journal.store import AwayError, Journal, LostLeaseError, Row
from muster.sessions.metrics import Metrics
from muster.sessions.platforms.engines import Running
from muster.sessions.readers.pool import Readers
from muster.sessions.runs import events, external, usage, weights
from muster.sessions.runs.config import Config
from muster.sessions.runs.counts import Counts
from muster.sessions.runs.futures import Futures
from muster.sessions.seam import Refused
from muster.sessions.tenancy import SHARE

__all__ = ["Context", "Model"]

_LOG = logging.getLogger(__name__)
_CHANGES = ("create_model", "forward_backward", "optim_step", "load_weights")
"""What a model is made again of; the other kinds leave it as it is."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all of a Gateway shares.

    Attributes:
        config: of the Gateway.
        journal: what handlers use; for what executes requests, one that only the holder of the lease can use.
        futures: who waits for what.
        trainer: the engine that trains.
        sampler: the engine that samples.
        metrics: of the Gateway.
        readers: of large bodies.
        clock: seconds since 1970.
        term: number of the lease; 0 where a journal has one Gateway only.
        counts: what tenants have at most, where a journal has one Gateway only.
    """

    config: Config
    journal: Journal
    futures: Futures
    trainer: Running
    sampler: Running
    metrics: Metrics
    readers: Readers
    clock: Callable[[], float] = field(default=time.time)
    term: int = 0
    counts: Counts = field(default_factory=Counts)


class _Result(NamedTuple):
    body: bytes
    form: str
    layout: str | None = None
    saved: weights.Saved | None = None


class Model:
    """Executes the requests of one model, as long as there are any.

    Args:
        context: of the Gateway.
        id_: of the model.
    """

    def __init__(self, context: Context, id_: str) -> None:
        self._context, self._id = context, id_
        self._instance = ""
        self._woken = asyncio.Event()
        self._waiting: tuple[int, float] | None = None  # for which number, since when
        self._faults: tuple[str, int] = ("", 0)  # of the Gateway itself: at which request, how many
        self._task = asyncio.create_task(self._work())

    def wake(self) -> None:
        """Tell that there is a new request."""
        self._woken.set()

    async def close(self) -> None:
        """Stop; what was accepted stays in the journal."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            try:
                await self._turn()
            except asyncio.CancelledError:
                raise
            except LostLeaseError:
                return  # whoever has the lease now goes on
            except AwayError as error:
                _LOG.warning("model %s: %s; its turn is taken again", self._id, error)
                await asyncio.sleep(random.uniform(0.5, 1))  # noqa: S311  # no secret
            except Exception:  # noqa: BLE001  # taken again
                _LOG.exception("model %s: its turn failed and is taken again", self._id)
                await asyncio.sleep(1)

    async def _turn(self) -> None:
        """Execute what is next, or wait for it."""
        self._woken.clear()
        model = await self._row()
        first, is_late = await self._context.journal.run(entries.next_of, self._id, model["done"])
        if first is not None and first["seq"] == model["done"] + 1:
            self._waiting = None
            await self._guarded(model, first)
        elif first is not None and (is_late or self._is_gap_over(model["done"] + 1)):
            through = await self._context.journal.run(entries.skip, self._id)
            _LOG.warning("model %s: goes on without requests %s to %s", self._id, model["done"] + 1, through)
        else:
            await self._wait(first is not None)

    async def _wait(self, for_gap: bool) -> None:
        limit = self._context.config.limits.gap / 10 if for_gap else None
        try:
            async with asyncio.timeout(limit):
                await self._woken.wait()
        except TimeoutError:
            return

    def _is_gap_over(self, missing: int) -> bool:
        """Tell whether a missing number was waited for long enough.

        In front of anything but a pass it is not waited for: the client sends what follows a call only when all chunks
        of the call were accepted (tinker 0.38.0, `TrainingClient._take_turn`), so what is missing there never comes.
        """
        now = self._context.clock()
        if self._waiting is None or self._waiting[0] != missing:
            self._waiting = (missing, now)
        return now - self._waiting[1] > self._context.config.limits.gap

    async def _guarded(self, model: Row, due: Row) -> None:
        """Execute a request; one at which the Gateway itself fails again and again ends as well."""
        try:
            await self._execute(model, due)
        except (AwayError, LostLeaseError):
            raise
        except Exception:
            count = self._faults[1] + 1 if self._faults[0] == due["id"] else 1
            self._faults = (due["id"], count)
            self._instance = ""
            if count < self._context.config.limits.attempts:
                raise
            _LOG.exception("model %s: request %s failed %s times", self._id, due["seq"], count)
            await self._fail(due, "the Gateway failed at this request; its log says how", "server")

    async def _execute(self, model: Row, due: Row) -> None:
        problem, asked = "", None
        for attempt in range(1, self._context.config.limits.attempts + 1):
            instance = await self._context.trainer.ready()
            asked = self._context.clock() if asked is None else asked
            answer = None
            try:
                await self._ready(model)
                # What an engine died of is tried alone, so that it takes no step of another model with it.
                answer = await self._ask(model, due["seq"], due["kind"], "" if attempt == 1 else ALONE)
                if due["kind"] == "load_weights":
                    # Before it is told: what was loaded may be deleted or replaced from then on.
                    await self._written(due["seq"])
                past = await self._kept(due, answer)
            except Refused as error:
                if answer is not None:
                    await self._taken_back(answer)
                await self._fail(due, str(error), "user")
            except (LostError, FailedError) as error:
                _LOG.warning("model %s: request %s, attempt %s: %s", self._id, due["seq"], attempt, error)
                await self._context.trainer.after(instance)
                self._instance, problem = "", str(error)
                continue
            else:
                self._context.metrics.ended(due["kind"], asked - due["created"], self._context.clock() - asked)
                await self._end(model, due, past)
            return
        await self._fail(due, f"the engine failed at this request: {problem}", "server")

    async def _ready(self, model: Row) -> None:
        """Have the engine hold the model as it was after the last request that was executed."""
        instance = await self._context.trainer.ready()
        if instance == self._instance:
            return
        engine = self._context.trainer.engine
        if model["snapshot"] >= 0:
            body = orjson.dumps({"folder": str(self._snapshot(model["snapshot"])), "optimizer": True})
            await engine.train(self._id, model["snapshot"], "load", body)
        query = (
            "SELECT seq, kind FROM requests WHERE target = ? AND seq > ? AND seq <= ? AND state = 'done' ORDER BY seq"
        )
        shared = await self._context.journal.run(layouts.of, self._id)
        for row in await self._context.journal.rows(query, self._id, model["snapshot"], model["done"]):
            if row["kind"] in _CHANGES:
                await self._ask(model, row["seq"], row["kind"], shared.get(row["seq"], ALONE))
        self._instance = instance

    async def _ask(self, model: Row, seq: int, kind: str, layout: str) -> _Result:
        """Return the result of a request; a layout is that of a step that runs again."""
        row = await self._context.journal.row("SELECT body FROM requests WHERE target = ? AND seq = ?", self._id, seq)
        if row is None or row["body"] is None:
            raise FailedError(f"request {seq} is not in the journal any more")
        body: bytes = row["body"]
        if kind in {"forward_backward", "forward"}:
            return _Result(*await self._context.trainer.engine.train(self._id, seq, "step", body, layout))
        asked: dict[str, Any] = orjson.loads(body)
        if kind.startswith("save_weights"):
            saved = await self._saved(model, seq, kind, asked)
            return _Result(saved.body, "json", saved=saved)
        return _Result(*await self._other(model, seq, kind, asked))

    async def _saved(self, model: Row, seq: int, kind: str, asked: dict[str, Any]) -> weights.Saved:
        if kind == "save_weights_external":
            return await external.save(self._context, model, seq, asked, self._engine)
        return await weights.save(self._context, model, seq, kind, asked, self._engine)

    async def _other(self, model: Row, seq: int, kind: str, asked: dict[str, Any]) -> tuple[bytes, str]:
        if kind in {entries.REFUSED, entries.REFUSED_STEP}:
            raise Refused(asked["detail"])
        if kind == "create_model":
            await self._engine(seq, "create", model["lora"].encode())
            return orjson.dumps({"model_id": self._id, "type": "create_model"}), "json"
        if kind == "optim_step":
            return await self._engine(seq, "optim", orjson.dumps(asked["adam_params"]))
        source = await weights.loadable(self._context.journal, asked["path"], asked["tenant"])
        await weights.check_fit(self._context.journal, source, model)
        await self._engine(seq, "load", orjson.dumps({"folder": source["folder"], "optimizer": asked["optimizer"]}))
        return orjson.dumps({"path": asked["path"], "model_id": self._id, "type": "load_weights"}), "json"

    async def _engine(self, seq: int, kind: str, body: bytes) -> tuple[bytes, str]:
        answer = await self._context.trainer.engine.train(self._id, seq, kind, body)
        return answer.body, answer.form

    async def _kept(self, due: Row, result: _Result) -> weights.Past:
        """Keep all that a request did in one transaction; nothing but its number when it has ended meanwhile."""
        now = self._context.clock()
        form = "protobuf" if result.form == "application/x-protobuf" else "json"
        used = usage.Used(self._context.config.name, usage.of(due["kind"], result.body))

        def change(connection: Any) -> weights.Past:
            connection.execute("UPDATE models SET done = ?, used = ? WHERE id = ?", (due["seq"], now, self._id))
            if not entries.finish(connection, due["id"], result.body, form, now):
                return weights.Past((result.saved.folder,)) if result.saved else weights.Past()
            usage.note(connection, self._id, used, now)
            self._progress(connection, due["kind"], result.body, used, now)
            if result.layout:
                layouts.keep(connection, self._id, due["seq"], result.layout)
            if due["kind"] not in _CHANGES:
                connection.execute("UPDATE requests SET body = NULL WHERE id = ?", (due["id"],))
            if due["kind"] == "load_weights":
                entries.forget(connection, self._id, due["seq"])
                layouts.forget(connection, self._id, due["seq"])
                connection.execute("UPDATE models SET snapshot = ? WHERE id = ?", (due["seq"], self._id))
            return result.saved.keep(connection) if result.saved else weights.Past()

        past: weights.Past = await self._context.journal.run(change)
        self._context.metrics.used(used.amounts)
        return past

    async def _end(self, model: Row, due: Row, past: weights.Past) -> None:
        """Do what follows the end of a request, which is in the journal."""
        self._context.futures.ended(due["id"])
        events.tell(self._context.journal, *past.events)
        for folder in past.folders:
            await weights.remove(self._context.journal, folder)
        if due["kind"] == "optim_step":
            await self._keep(due["seq"])
        elif due["kind"] == "load_weights":
            self._remove(model["snapshot"])

    async def _taken_back(self, result: _Result) -> None:
        """Have an engine hold nothing of an answer that could not be kept."""
        if result.saved is not None:
            await weights.remove(self._context.journal, result.saved.folder)
            return
        self._instance = ""
        with suppress(LostError, FailedError):
            await self._context.trainer.engine.unload(self._id)

    def _progress(self, connection: Any, kind: str, result: bytes, used: usage.Used, now: float) -> None:
        if kind == "forward_backward":
            progress.passed(connection, self._id, used.amounts.get("training", 0), usage.metrics(kind, result))
        elif kind == "optim_step":
            progress.stepped(connection, self._id, usage.metrics(kind, result), now)
        elif kind == "load_weights":
            progress.forgotten(connection, self._id)

    async def _fail(self, due: Row, text: str, category: str) -> None:
        """Keep that a request failed; where it was to make the model, there is none, and nothing counts one."""
        now = self._context.clock()

        def change(connection: Any) -> list[str]:
            entries.given_up(connection, due["id"], text, category, now)
            connection.execute("UPDATE models SET done = ?, used = ? WHERE id = ?", (due["seq"], now, self._id))
            return [] if due["seq"] else entries.unload(connection, self._id, now, entries.UNMADE)

        for id_ in (due["id"], *await self._context.journal.run(change)):
            self._context.futures.ended(id_)
        self._context.metrics.failed(due["kind"], category)

    async def _keep(self, seq: int) -> None:
        """Have weights and optimizer on disk, and forget what they hold; until then the journal holds it."""
        try:
            await self._written(seq)
        except (LostError, FailedError, Refused) as error:
            _LOG.warning("model %s: no snapshot after request %s: %s", self._id, seq, error)
            return
        old = (await self._row())["snapshot"]

        def change(connection: Any) -> None:
            connection.execute("UPDATE models SET snapshot = ? WHERE id = ?", (seq, self._id))
            entries.forget(connection, self._id, seq)
            layouts.forget(connection, self._id, seq)

        await self._context.journal.run(change)
        self._remove(old)

    async def _written(self, seq: int) -> None:
        await self._context.trainer.engine.snapshot(self._id, self._snapshot(seq))

    def _remove(self, old: int) -> None:
        if old >= 0:
            shutil.rmtree(self._snapshot(old), ignore_errors=True)

    def _snapshot(self, seq: int) -> Path:
        return weights.place(self._context.config.root, "snapshots", self._id, str(seq))

    async def _row(self) -> Row:
        query = (
            "SELECT models.*, sessions.tenant FROM models JOIN sessions ON sessions.id = models.session"
            " WHERE models.id = ?"
        )
        row = await self._context.journal.row(query, self._id)
        if row is None:
            raise LookupError(f"{self._id}: is not in the journal")
        SHARE.set(self._context.config.quotas.share(row["tenant"]))
        return row
