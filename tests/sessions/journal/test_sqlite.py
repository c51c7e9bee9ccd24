from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading

import pytest

from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.journal.store import AwayError

MODEL = (
    "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot)"
    " VALUES ('m', 'nobody', 'b', '{}', '{}', 0, 0, -1, -1)"
)
KEY = "INSERT INTO keys (id, hash, tenant, created) VALUES (?, ?, 'a', 0)"
KEYS = "SELECT id FROM keys ORDER BY id"


@pytest.fixture
async def journal(tmp_path):
    made = SqliteJournal(tmp_path / "journal.sqlite")
    await made.open()
    yield made
    await made.close()


def late(connection):
    """Do what SQLite refuses only when the transaction is to be kept."""
    connection.execute("PRAGMA defer_foreign_keys = ON")
    connection.execute(MODEL)


async def test_a_transaction_that_cannot_be_kept_is_taken_back_and_the_next_one_goes_on(journal):
    for _ in range(2):
        with pytest.raises(sqlite3.IntegrityError):
            await journal.run(late)
    assert await journal.rows("SELECT id FROM models") == []


@contextlib.asynccontextmanager
async def held(journal):
    """Have the thread of the journal at work inside the block, so that what comes meanwhile waits together."""
    begun, over = threading.Event(), threading.Event()
    first = asyncio.create_task(journal.run(lambda _connection: begun.set() or over.wait(30)))
    await asyncio.to_thread(begun.wait, 30)
    yield
    over.set()
    assert await first


async def together(journal, *changes):
    """Have changes wait at the same time, and return what each returned or raised."""
    async with held(journal):
        tasks = [asyncio.create_task(journal.run(each)) for each in changes]
        await asyncio.sleep(0)  # each task runs to where it waits
    return await asyncio.gather(*tasks, return_exceptions=True)


def kept(id_):
    return lambda connection: connection.execute(KEY, (id_, id_)).rowcount


async def ids(journal):
    return [row["id"] for row in await journal.rows(KEYS)]


async def transactions(journal):
    """Return a list that grows with each transaction that is begun and with each that is kept."""
    found, told = [], {"BEGIN IMMEDIATE": "begun", "COMMIT": "kept"}
    trace = lambda text: found.append(told[text]) if text in told else None  # noqa: E731  # one line beside its table
    await journal.run(lambda connection: connection.set_trace_callback(trace))
    found.clear()
    return found


async def test_what_waits_together_is_kept_by_one_transaction(journal):
    found = await transactions(journal)
    assert await together(journal, *map(kept, "abc")) == [1, 1, 1]
    assert found == ["begun", "kept"] * 2
    assert await ids(journal) == ["a", "b", "c"]


async def test_a_change_that_fails_is_taken_back_whole_and_those_beside_it_are_kept(journal):
    def failing(connection):
        kept("no")(connection)
        raise ValueError("no")

    found = await transactions(journal)
    told = await together(journal, kept("a"), failing, kept("a"), kept("b"))
    assert (told[0], str(told[1]), type(told[2]), told[3]) == (1, "no", sqlite3.IntegrityError, 1)
    assert found == ["begun", "kept"] * 2
    assert await ids(journal) == ["a", "b"]


async def test_one_change_for_which_a_transaction_cannot_be_kept_spoils_none_beside_it(journal):
    told = await together(journal, kept("a"), late, kept("b"))
    assert (told[0], type(told[1]), told[2]) == (1, sqlite3.IntegrityError, 1)
    assert await ids(journal) == ["a", "b"]


async def test_a_change_that_ends_the_transaction_spoils_none_beside_it(journal):
    def ended(connection):
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("as a full storage does")

    told = await together(journal, kept("a"), ended, kept("b"))
    assert (told[0], type(told[1]), told[2]) == (1, sqlite3.OperationalError, 1)
    assert await ids(journal) == ["a", "b"]


async def test_a_change_without_room_is_told_so_and_those_beside_it_are_kept(journal):
    await journal.execute("PRAGMA max_page_count = 1")  # SQLite makes it the pages that there are
    large = lambda connection: connection.execute(KEY, ("large", "2" * (1 << 20)))  # noqa: E731  # as those beside it
    told = await together(journal, kept("a"), large, kept("b"))
    assert (told[0], type(told[1]), told[2]) == (1, AwayError, 1)
    assert await ids(journal) == ["a", "b"]


async def test_changes_run_in_the_order_in_which_they_came_however_many_wait(journal):
    ran = []
    await together(journal, *[lambda _connection, at=at: ran.append(at) for at in range(300)])
    assert ran == list(range(300))


async def test_a_change_that_nobody_waits_for_any_more_is_not_made(journal):
    async with held(journal):
        dropped, wanted = (asyncio.create_task(journal.run(kept(each))) for each in "ab")
        await asyncio.sleep(0)
        dropped.cancel()
        await asyncio.wait([dropped])  # its cancellation has come to the journal by then
    assert await wanted == 1
    assert await ids(journal) == ["b"]


async def test_what_is_read_does_not_wait_for_a_change_that_is_at_work(journal):
    await journal.execute(KEY, "first", "1")

    async with held(journal):
        change = asyncio.create_task(journal.execute(KEY, "second", "2"))
        found = await asyncio.wait_for(journal.rows(KEYS), 30)

    assert [row["id"] for row in found] == ["first"]
    await change
    assert [row["id"] for row in await journal.rows(KEYS)] == ["first", "second"]


async def test_a_read_sees_the_rows_of_one_moment(journal):
    def twice(connection):
        before = connection.execute(KEYS).fetchall()
        asyncio.run_coroutine_threadsafe(journal.execute(KEY, "between", "1"), loop).result(30)
        return len(before), len(connection.execute(KEYS).fetchall())

    loop = asyncio.get_running_loop()
    assert await journal.read(twice) == (0, 0)
    assert len(await journal.rows(KEYS)) == 1


async def test_what_is_to_be_read_only_cannot_change_the_journal(journal):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await journal.read(lambda connection: connection.execute(KEY, ("a", "1")))
    assert await journal.rows(KEYS) == []
