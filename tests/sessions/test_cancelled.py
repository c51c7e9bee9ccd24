"""Waits that are cancelled in the turn of the loop in which what they wait for happens: they end."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from muster.sessions.journal import entries
from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.runs.config import Config, Limits
from muster.sessions.runs.manager import Manager
from muster.sessions.runs.models import Model
from tests.support import waits

_SESSION = "INSERT INTO sessions (id, tenant, created, seen, status, about) VALUES ('s', 'team-a', 0, 0, '{}', '{}')"
_MODEL = (
    "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot)"
    " VALUES ('s:train:0', 's', 'base', '{}', '{}', 0, 0, 0, -1)"
)


@pytest.fixture
async def waiting(tmp_path):
    """A model that waits for the request 1, for there is a 2."""
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    await journal.open()
    await journal.execute(_SESSION)
    await journal.execute(_MODEL)
    await journal.run(entries.promise, entries.Request("team-a", "s:train:0", 2, "forward_backward", b""), 1.0)
    config = Config(tmp_path, tmp_path, "base", 512, Limits(gap=1e6))
    model = Model(SimpleNamespace(journal=journal, config=config, clock=time.time), "s:train:0")
    async with asyncio.timeout(60):
        while model._waiting is None:  # noqa: ASYNC110  # it is known on the journal's thread
            await asyncio.sleep(0.001)
    await waits.turns()
    yield model
    await journal.close()


async def test_a_model_that_is_told_of_a_request_while_it_is_closed_is_closed(waiting):
    waiting.wake()
    async with asyncio.timeout(60):
        await waiting.close()


async def test_a_manager_that_is_told_of_an_end_while_it_is_closed_is_closed(tmp_path):
    manager = Manager(Config(tmp_path, tmp_path, "base", 16))
    reaping = asyncio.create_task(manager._reap())
    await waits.turns()
    manager._look.set()
    reaping.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([reaping])
    assert reaping.cancelled()
