"""A journal that was emptied, exchanged, removed or damaged, before a Gateway starts and while it serves."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading

import httpx
import pytest

from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.journal.store import AwayError, DamagedError
from tests.sessions.gateways import ROOT, Gateway

LONG = pytest.mark.thorough
PARTS = ("", "-wal", "-shm")
SESSIONS = (
    "INSERT INTO sessions (id, tenant, created, seen, ended, status, about)"
    """ VALUES (?, 'team-a', 1e12, 1e12, 1e12, '{"type": "active"}', '{"tags": ["' || ? || '"]}')"""
)


def journal(gateway, part=""):
    return gateway.folder / f"journal.sqlite{part}"


def removed(gateway, _other):
    for part in PARTS:
        journal(gateway, part).unlink(missing_ok=True)


def emptied(gateway, other):
    removed(gateway, other)
    journal(gateway).touch()


def exchanged(gateway, other):
    removed(gateway, other)
    shutil.copy(journal(other), journal(gateway))


def overwritten(gateway, _other=None):
    """Write over pages in the middle of the file, in the file as it is now."""
    size = journal(gateway).stat().st_size
    with journal(gateway).open("r+b") as file:
        for at in range(size // 3 // 4096, size * 2 // 3 // 4096):
            file.seek(at * 4096)
            file.write(os.urandom(4096))


def refused(gateway):
    """Return the sentence with which a start ends."""
    command = [sys.executable, "-m", "muster.sessions.cli", "serve", "--root", gateway.folder, "--base", gateway.base]
    ended = subprocess.run(
        [*command, *gateway._journal, "--port", "0", *gateway.ENGINES],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    return ended.stderr


@pytest.fixture
def filled(tmp_path):
    """A Gateway that serves, with a journal of 12 MB, of which it has a sixth in memory."""
    (tmp_path / "gateway").mkdir()
    made = Gateway(tmp_path / "gateway")
    with contextlib.closing(sqlite3.connect(journal(made))) as connection, connection:
        connection.executemany(SESSIONS, ((f"s{each:03}", "x" * 20_000) for each in range(600)))
    made.start()
    yield made
    made.end()


@pytest.fixture
def other(tmp_path):
    (tmp_path / "other").mkdir()
    with Gateway(tmp_path / "other") as made:
        pass
    return made


@pytest.mark.parametrize("spoil", [emptied, *(pytest.param(each, marks=LONG) for each in (exchanged, removed))])
def test_a_gateway_does_not_begin_with_another_journal_until_it_is_told_to(filled, other, spoil):
    filled.end()
    spoil(filled, other)
    for _ in range(2):
        told = refused(filled)
        assert all(
            part in told for part in ("the journal is not the one", "muster sessions restore", "remove this file")
        )
    with pytest.raises(subprocess.CalledProcessError) as failed:
        filled.run("keys", "create", "team-a")
    assert "the journal is not the one" in failed.value.stderr
    (filled.folder / "journal.id").unlink()
    filled.start()
    assert httpx.get(f"{filled.url}/api/v1/sessions", headers={"X-API-Key": filled.key}).status_code == 401


def test_a_gateway_does_not_begin_with_a_journal_that_is_damaged_in_the_middle(filled):
    filled.end()
    overwritten(filled)
    told = refused(filled)
    assert all(part in told for part in ("is damaged", "muster sessions restore"))


def test_a_journal_that_was_brought_here_with_its_file_is_taken(filled, tmp_path):
    filled.end()
    shutil.copytree(filled.folder, tmp_path / "moved", ignore=shutil.ignore_patterns("*.sock"))
    filled.folder = tmp_path / "moved"
    filled.start()
    assert httpx.get(f"{filled.url}/api/v1/sessions", headers={"X-API-Key": filled.key}).status_code == 200


@pytest.mark.parametrize(
    "spoil", [overwritten, removed, *(pytest.param(each, marks=LONG) for each in (emptied, exchanged))]
)
def test_a_journal_that_is_spoilt_while_it_serves_is_said_in_a_sentence_and_by_the_health(filled, other, spoil):
    health = httpx.get(f"{filled.url}/api/v1/healthz")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    spoil(filled, other)
    with httpx.Client(base_url=f"{filled.url}/api/v1/", headers={"X-API-Key": filled.key}, timeout=60) as http:
        answers = [http.get("sessions/s300"), http.get("sessions")]
        answer = answers[-1]
        assert [each.status_code for each in answers] == [503, 503]
        assert answer.json()["detail"].startswith("the journal of this Gateway is damaged")
        health = http.get("healthz")
    assert (health.status_code, health.json()["detail"]) == (503, answer.json()["detail"])
    log = (filled.folder / "gateway-one.log").read_text()
    assert "Traceback" not in log
    assert "muster sessions restore" in log


def test_a_database_that_was_emptied_or_exchanged_is_noticed_at_the_start(tmp_path, place):
    first = Gateway(tmp_path, place("postgresql"))
    with first:
        pass
    first._journal = ["--journal", place("postgresql")]
    assert "the journal is not the one" in refused(first)


async def test_a_database_that_cannot_read_its_own_tables_is_said_to_be_damaged(place, tmp_path):
    from muster.sessions.journal.places import journal_at  # noqa: PLC0415  # only where there is a server

    made = journal_at(place("postgresql"), tmp_path)
    await made.open()
    raised = "DO $$ BEGIN RAISE EXCEPTION 'invalid page in block 0' USING ERRCODE = 'XX001'; END $$"
    for statement in (raised, "SELECT 1 FROM nowhere"):
        with pytest.raises(DamagedError, match="muster sessions restore"):
            await made.rows(statement)
    await made.close()


async def test_a_journal_that_takes_too_long_to_look_through_is_taken_and_that_is_known(tmp_path, monkeypatch):
    made = SqliteJournal(tmp_path / "journal.sqlite")
    await made.open()
    assert await made.check(60.0)

    class Over(threading.Timer):
        """Its time is over in the first moment of the check."""

        def start(self):
            made._connection.set_progress_handler(self.function, 1)

        def cancel(self):
            made._connection.set_progress_handler(None, 0)

    monkeypatch.setattr(threading, "Timer", Over)
    assert not await made.check(60.0)
    assert [row[0] for row in await made.rows("SELECT 1")] == [1]
    await made.close()


async def spoilt(folder, seed):
    """Overwrite drawn bytes of a journal, read all that is in it, and return what came of that."""
    chance, file = random.Random(seed), folder / "journal.sqlite"  # noqa: S311  # which bytes, no secret
    made = SqliteJournal(file)
    await made.open()
    await made.run(
        lambda connection: connection.executemany(SESSIONS, ((f"s{each:03}", "x" * 3000) for each in range(60)))
    )
    await made.close()
    data = bytearray(file.read_bytes())
    for _ in range(chance.choice((1, 8, 64))):
        at = chance.randrange(len(data))
        length = chance.choice((1, 4, 100, 4096))
        data[at : at + length] = chance.randbytes(len(data[at : at + length]))
    file.write_bytes(data[: chance.choice((len(data), len(data), len(data) // 4096 * 2048))])
    made = SqliteJournal(file)
    try:
        await made.open()
        await made.check(60.0)
        for table in (
            "identity",
            "keys",
            "sessions",
            "models",
            "requests",
            "samplers",
            "checkpoints",
            "events",
            "usage",
        ):
            await made.rows(f"SELECT * FROM {table}")  # noqa: S608  # no value in it
            await made.execute(f"DELETE FROM {table}")  # noqa: S608  # as above
    except (AwayError, ValueError) as error:
        return str(error)
    finally:
        await made.close()
    return ""


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 2000), marks=LONG)], ids=["some", "many"])
async def test_whatever_bytes_of_a_journal_are_overwritten_it_is_read_or_said_to_be_damaged(tmp_path, seeds):
    told = []
    for seed in seeds:
        (tmp_path / str(seed)).mkdir()
        told.append(await spoilt(tmp_path / str(seed), seed))
    assert {bool(each) for each in told} == {True, False}
    assert [each for each in told if each and "muster sessions restore" not in each] == []
