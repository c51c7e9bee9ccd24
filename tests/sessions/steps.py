"""A model of a Gateway in this process, on a journal that can end it at any statement, with an engine beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from types import SimpleNamespace

import orjson
from aiohttp import web
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto

from muster.sessions.engines.client import Engine
from muster.sessions.engines.process import Service
from muster.sessions.journal import entries
from muster.sessions.runs import leftovers
from muster.sessions.runs.config import Config, Limits
from muster.sessions.runs.manager import Manager
from muster.sessions.runs.models import Model
from tests.sessions import bigram
from tests.sessions.hand import datum

MODEL = "s:train:0"
_SESSION = (
    "INSERT INTO sessions (id, tenant, created, seen, status, about)"
    " VALUES ('s', 'team-a', 0, 1e12, '{\"type\": \"active\"}', '{}')"
)
_MODEL = (
    "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot) VALUES (?, 's', 'base', ?,"
    " '{}', 0, 0, -1, -1)"
)
_LORA = {"rank": 4, "seed": 7, "train_unembed": True, "train_mlp": True, "train_attn": True}
_NUMBERS = itertools.count()


class Died(BaseException):
    """This process ends here."""


class House:
    """A journal with one model, which is executed here."""

    def __init__(self, root, url=None, **limits):
        self.root = root
        self.manager = Manager(Config(root, root, "base", 512, Limits(**limits), journal=url))
        self.journal = self.manager.context.journal
        self.statements = 0
        self.ends_at = None  # after so many statements the process ends: before the next is run, or after it
        self.engine = None

    async def __aenter__(self):
        await self.journal.open()
        await self.journal.execute(_SESSION)
        await self.journal.execute(_MODEL, MODEL, orjson.dumps(_LORA).decode())
        self._run, self._read = self.journal.run, self.journal.read
        self.journal.run, self.journal.read = self._counted(self._run), self._counted(self._read)
        return self

    async def __aexit__(self, *_):
        self.journal.run, self.journal.read = self._run, self._read
        await self.journal.close()

    def _counted(self, run):
        async def counted(work, *args, **named):
            self.statements += 1
            if self.ends_at == (self.statements, "before"):
                raise Died
            answer = await run(work, *args, **named)
            if self.ends_at == (self.statements, "after"):
                raise Died
            return answer

        return counted

    async def ask(self, seq, kind, /, **body):
        """Keep a request."""
        text = orjson.dumps({**body, "tenant": "team-a"})
        request = entries.Request("team-a", MODEL, seq, kind, text)
        await self._run(entries.promise, request, 1.0)

    async def ask_step(self, seq, tokens):
        given = types.ForwardBackwardInput(data=[datum(tokens)], loss_fn="cross_entropy")
        message = forward_backward_request_to_proto(
            types.ForwardBackwardRequest(forward_backward_input=given, model_id=MODEL, seq_id=seq)
        )
        request = entries.Request("team-a", MODEL, seq, "forward_backward", message.SerializeToString())
        await self._run(entries.promise, request, 1.0)

    async def executed(self, changed=lambda _engine: None):
        """Execute what waits with a new engine until nothing does, or the process ends; tell whether it did."""
        socket = self.root / f"engine{next(_NUMBERS)}.sock"
        runner = web.AppRunner(Service(bigram.Trainer(self.root), None).app(), access_log=None)
        await runner.setup()
        await web.UnixSite(runner, socket).start()
        self.engine = Engine(socket)
        changed(self.engine)
        there = asyncio.Event()
        there.set()

        async def ready():
            return str(socket)

        async def after(_instance):
            return None

        trainer = SimpleNamespace(ready=ready, after=after, engine=self.engine, is_up=True)
        context = dataclasses.replace(self.manager.context, trainer=trainer, journal=self.journal)
        model = Model(context, MODEL)
        try:
            while await self._waits():
                ended, _ = await asyncio.wait([model._task], timeout=0.002)
                if ended:
                    return False
            return True
        finally:
            await model.close()
            await self.engine.close()
            await runner.cleanup()

    async def _waits(self):
        query = (
            "SELECT 1 FROM models WHERE id = ? AND (done < (SELECT max(seq) FROM requests)"
            " OR snapshot < (SELECT max(seq) FROM requests WHERE kind = 'optim_step' AND seq = models.done))"
        )
        return bool(await self._run(lambda connection: connection.execute(query, (MODEL,)).fetchall()))

    async def answers(self):
        rows = await self._rows("SELECT seq, state, result, category FROM requests ORDER BY seq")
        return {row["seq"]: (row["state"], bytes(row["result"] or b""), row["category"]) for row in rows}

    async def contents(self):
        """Return all that the journal and the disk have, without times."""
        await leftovers.sweep(self.journal, self.root)
        tables = {
            "requests": "SELECT seq, state, result, body FROM requests ORDER BY seq",
            "models": "SELECT done, snapshot, inflight, inflight_old FROM models",
            "samplers": "SELECT id, folder, model FROM samplers ORDER BY id",
            "checkpoints": "SELECT path, folder, size FROM checkpoints ORDER BY path",
            "events": "SELECT event, details FROM events ORDER BY event, details",
            "usage": "SELECT kind, sum(amount) FROM usage GROUP BY kind ORDER BY kind",
            "steps": "SELECT number, tokens, metrics FROM steps ORDER BY number",
        }
        held = {name: [tuple(row) for row in await self._rows(query)] for name, query in tables.items()}
        files = sorted(each for each in self.root.rglob("*.npz"))
        return held, {str(each): each.read_bytes() for each in files}

    async def _rows(self, query):
        return await self._run(lambda connection: connection.execute(query).fetchall())
