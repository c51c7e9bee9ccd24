"""How often a request comes to the journal: each transaction that changes it waits for the disk."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from types import SimpleNamespace

import pytest
from aiohttp.test_utils import make_mocked_request

from muster.sessions.gateway import records
from muster.sessions.gateway.state import MANAGER
from muster.sessions.journal.sqlite import SqliteJournal
from tests.sessions.hand import Hand, datum

pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")

PASSES = 8
CHECKPOINT = "INSERT INTO checkpoints (path, run, tenant, folder, size, created) VALUES (?, ?, 'team', '', 9, ?)"


class Counted(SqliteJournal):
    """A journal that counts its uses."""

    uses = 0

    async def read(self, look, *args, **named):
        self.uses += 1
        return await super().read(look, *args, **named)

    async def run(self, change, *args, **named):
        self.uses += 1
        return await super().run(change, *args, **named)


@pytest.fixture
async def journal(tmp_path):
    made = Counted(tmp_path / "journal.sqlite")
    await made.open()
    await made.execute("INSERT INTO sessions VALUES ('s', 'team', 0, 0, NULL, '{}', '{\"project_id\": \"mine\"}')")
    for number in range(30):
        values = (f"s:train:{number}", number)
        await made.execute(
            "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot)"
            " VALUES (?, 's', 'base', '{\"rank\": 4}', '{}', ?, 0, 0, -1)",
            *values,
        )
        for kind, created in (("weights", 1), ("weights", 2), ("sampler_weights", 3)):
            path = f"tinker://{values[0]}/{kind}/{created}"
            insert = (
                "INSERT INTO checkpoints (path, run, tenant, folder, size, created) VALUES (?, ?, 'team', '', 9, ?)"
            )
            await made.execute(insert, path, values[0], created)
    made.uses = 0
    yield made
    await made.close()


async def listed(journal, query):
    app = {MANAGER: SimpleNamespace(context=SimpleNamespace(journal=journal))}
    request = make_mocked_request("GET", f"/api/v1/training_runs?{query}", app=app)
    request["tenant"] = "team"
    answer = await records.training_runs(request)
    return json.loads(answer.body)


@pytest.mark.parametrize(("query", "first", "count"), [("limit=20", 29, 20), ("limit=20&offset=20", 9, 10)])
async def test_a_page_of_runs_is_one_statement_whatever_its_length(journal, query, first, count):
    page = await listed(journal, query)

    assert journal.uses == 1
    assert page["cursor"]["total_count"] == 30
    assert [each["training_run_id"] for each in page["training_runs"]] == [
        f"s:train:{first - number}" for number in range(count)
    ]
    (run, *_) = page["training_runs"]
    assert run["last_checkpoint"]["tinker_path"] == f"tinker://s:train:{first}/weights/2"
    assert run["last_sampler_checkpoint"]["checkpoint_id"] == "sampler_weights/3"


async def test_a_page_after_the_last_run_still_says_how_many_there_are(journal):
    page = await listed(journal, "limit=20&offset=40")

    assert page == {"training_runs": [], "cursor": {"offset": 40, "limit": 20, "total_count": 30}}
    assert journal.uses == 2


async def test_runs_of_a_project_are_those_of_its_sessions(journal):
    assert (await listed(journal, "project_id=other"))["training_runs"] == []
    page = await listed(journal, "project_id=mine&limit=2")
    assert [each["training_run_id"] for each in page["training_runs"]] == ["s:train:29", "s:train:28"]
    assert page["cursor"]["total_count"] == 30


def test_a_pass_is_kept_by_two_transactions(shared):
    hand = Hand(shared)
    hand.create()
    before = changes(shared)
    for number in range(PASSES):
        hand.result(hand.step(1 + number, [datum([1, 2, 3])]))

    assert changes(shared) - before <= 2 * PASSES


def changes(gateway):
    """The number of the last transaction that changed the journal of a Gateway."""
    with contextlib.closing(sqlite3.connect(gateway.folder / "journal.sqlite")) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]
