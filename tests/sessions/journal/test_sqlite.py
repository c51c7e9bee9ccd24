from __future__ import annotations

import sqlite3

import pytest

from sessions.journal.sqlite import SqliteJournal

MODEL = (
    "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot)"
    " VALUES ('m', 'nobody', 'b', '{}', '{}', 0, 0, -1, -1)"
)


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
