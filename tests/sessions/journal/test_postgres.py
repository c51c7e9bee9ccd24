"""What PostgreSQL says of an end that it made is an outage, whatever kind of error it is."""

from __future__ import annotations

import asyncio

import pytest

from muster.sessions.journal import leases
from muster.sessions.journal.places import journal_at
from muster.sessions.journal.store import AwayError
from muster.sessions.runs.terms import Terms


@pytest.fixture
async def journal(place):
    made = journal_at(place("postgresql"), None)
    await made.open()
    yield made
    await made.close()


def paused(connection, url):
    """Stand still in a transaction until the server has ended it, as a process does that was stopped."""
    import psycopg  # noqa: PLC0415  # only where there is a server

    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
    pid = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
    with psycopg.connect(url, autocommit=True) as other:
        while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone():
            pass
    connection.execute("SELECT 1")


async def test_a_transaction_that_stood_still_too_long_is_an_outage_and_the_next_one_goes_on(journal):
    with pytest.raises(AwayError):
        await journal.run(paused, journal.url)
    assert [row[0] for row in await journal.rows("SELECT 1")] == [1]


async def test_whoever_fails_to_renew_the_lease_in_an_odd_way_asks_again(journal, monkeypatch):
    began, faults, take = asyncio.Event(), [], leases.take

    def odd(connection, holder, seconds):
        if not faults:
            faults.append(holder)
            raise LookupError("nobody foresaw this")
        return take(connection, holder, seconds)

    async def begin(_journal, _number):
        began.set()

    async def end():
        return None

    monkeypatch.setattr(leases, "take", odd)
    terms = Terms(journal, "one", 0.1, begin, end)
    task = asyncio.create_task(terms.keep())
    async with asyncio.timeout(120):
        await began.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await terms.close()
    assert faults == ["one"]


async def test_a_url_that_libpq_cannot_read_is_refused_without_its_password():
    made = journal_at("postgresql://me:secret@there:port/x?nosuch=1", None)
    with pytest.raises(ValueError, match="--journal: is not a URL") as refused:
        await made.open()
    assert "secret" not in str(refused.value)
    await made.close()


async def test_a_term_that_cannot_begin_ends_before_it_begins_again(journal):
    done, began = [], asyncio.Event()

    async def begin(_journal, _number):
        done.append("begin")
        if len(done) == 1:
            raise OSError("no more processes")
        began.set()

    async def end():
        done.append("end")

    terms = Terms(journal, "one", 0.1, begin, end)
    task = asyncio.create_task(terms.keep())
    async with asyncio.timeout(120):
        await began.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await terms.close()
    assert done == ["begin", "end", "begin"]
