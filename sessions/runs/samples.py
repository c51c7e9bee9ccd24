"""Sampling requests: any number at a time, each answered once; the sampler takes what waits together."""

from __future__ import annotations

import asyncio
import logging
import random

from muster.sessions.engines.client import FailedError, LostError
from muster.sessions.journal.store import AwayError, LostLeaseError, Row
from muster.sessions.runs import completions, usage
from muster.sessions.runs.models import Context
from muster.sessions.runs.verdicts import Verdicts
from muster.sessions.seam import Refused
from muster.sessions.tenancy import SHARE
from muster.sessions.wire import samples

__all__ = ["Samples", "folder_of"]

_LOG = logging.getLogger(__name__)


class Samples:
    """Has the sampler answer what is in the journal.

    Args:
        context: of the Gateway.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._verdicts = Verdicts(context)

    def begin(self, id_: str) -> None:
        """Have a request answered; nothing happens when it is being answered."""
        if id_ not in self._tasks:
            task = asyncio.create_task(self._answer(id_))
            self._tasks[id_] = task
            task.add_done_callback(lambda _: self._tasks.pop(id_, None))

    def cancel(self, id_: str) -> None:
        """Stop to wait for an answer that nobody wants."""
        if (task := self._tasks.get(id_)) is not None:
            task.cancel()

    async def resume(self) -> None:
        """Begin what waits since an earlier process."""
        for row in await self._context.journal.rows(
            "SELECT id FROM requests WHERE kind = 'sample' AND state = 'waiting'"
        ):
            self.begin(row["id"])

    async def close(self) -> None:
        """Stop; what was accepted stays in the journal."""
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._verdicts.close()

    async def _answer(self, id_: str) -> None:
        try:
            await self._through_outages(id_)
        except asyncio.CancelledError:
            raise
        except LostLeaseError:
            return  # whoever has the lease now goes on
        except Exception as error:  # noqa: BLE001  # whoever asked gets an answer
            _LOG.exception("request %s failed", id_)
            await self._fail(id_, f"the Gateway failed at this request: {type(error).__name__}", "server")

    async def _through_outages(self, id_: str) -> None:
        while True:
            try:
                return await self._try(id_)
            except AwayError as error:
                _LOG.warning("request %s: %s; it is tried again", id_, error)
                await asyncio.sleep(random.uniform(0.5, 1))  # noqa: S311  # no secret

    async def _try(self, id_: str) -> None:
        query = "SELECT tenant, target, body, created FROM requests WHERE id = ? AND state = 'waiting'"
        row = await self._context.journal.row(query, id_)
        if row is None:
            return
        SHARE.set(self._context.config.quotas.share(row["tenant"]))
        problem, folder, asked = "", None, None
        for _ in range(self._context.config.limits.attempts):
            instance = await self._context.sampler.ready()
            asked = self._context.clock() if asked is None else asked
            try:
                folder = await folder_of(self._context, row["target"])
                if verdict := self._verdicts.of(instance, folder):
                    await self._fail(id_, verdict, "server")
                    return
                result = await self._context.sampler.engine.sample(row["body"], folder)
            except Refused as error:
                problem = str(error)
                if await self._has_moved(row["target"], folder):
                    continue
                await self._fail(id_, problem, "user")
            except (LostError, FailedError) as error:
                problem = str(error)
                await self._context.sampler.after(instance)
                continue
            else:
                prompt = await self._context.readers.asked(row["target"], samples.prompt_tokens, row["body"])
                used = usage.Used(self._context.config.name, usage.sampled(prompt, result))
                await self._context.journal.run(completions.answered, id_, result, used, self._context.clock())
                self._context.futures.ended(id_)
                self._context.metrics.ended("sample", asked - row["created"], self._context.clock() - asked)
                self._context.metrics.used(used.amounts)
                self._verdicts.look(instance, folder, row["tenant"], row["body"], result)
            return
        await self._fail(id_, f"the sampler failed at this request: {problem}", "server")

    async def _has_moved(self, sampler: str, folder: str | None) -> bool:
        """Tell whether a session of kind inflight has newer weights by now; the older ones may be gone."""
        try:
            return await folder_of(self._context, sampler) != folder
        except Refused:
            return False

    async def _fail(self, id_: str, text: str, category: str) -> None:
        await self._context.journal.run(completions.failed, id_, text, category, self._context.clock())
        self._context.futures.ended(id_)
        self._context.metrics.failed("sample", category)


async def folder_of(context: Context, sampler: str) -> str | None:
    """Return the folder of the weights that a sampling session samples from now; None for the base."""
    query = (
        "SELECT samplers.folder, samplers.model, models.inflight, sessions.ended FROM samplers"
        " JOIN sessions ON sessions.id = samplers.session"
        " LEFT JOIN models ON models.id = samplers.model WHERE samplers.id = ?"
    )
    row: Row | None = await context.journal.row(query, sampler)
    if row is None:
        raise Refused(f"sampling_session_id: {sampler[:200]}: there is no such sampling session")
    if row["ended"] is not None:
        raise Refused(f"sampling_session_id: {sampler[:200]}: its session has ended; begin a new one")
    folder: str | None = row["inflight"] if row["model"] else row["folder"]
    return folder
