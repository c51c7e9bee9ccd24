"""A storage that takes nothing: the client is told to send again, and what was kept stays."""

from __future__ import annotations

import pytest

from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.journal.store import AwayError

_KEY = "INSERT INTO keys (id, hash, tenant, created) VALUES (?, ?, 'a', 0)"


async def test_a_full_storage_is_a_journal_that_is_away_until_there_is_room(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    await journal.open()
    try:
        await journal.execute(_KEY, "a", "1")
        await journal.execute("PRAGMA max_page_count = 1")  # SQLite makes it the pages that there are
        with pytest.raises(AwayError, match="make room"):
            await journal.execute(_KEY, "b", "2" * (1 << 20))
        assert [row["id"] for row in await journal.rows("SELECT id FROM keys")] == ["a"]
        await journal.execute("PRAGMA max_page_count = 100000")
        await journal.execute(_KEY, "b", "2" * (1 << 20))
    finally:
        await journal.close()


async def test_a_statement_that_is_wrong_is_no_outage(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    await journal.open()
    try:
        with pytest.raises(Exception, match="no such table") as failed:
            await journal.execute("DELETE FROM nowhere")
        assert not isinstance(failed.value, AwayError)
    finally:
        await journal.close()
