"""A journal of an earlier version is brought forward with its rows; one of a newer version is left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from muster.sessions.journal import versions
from muster.sessions.journal.places import journal_at
from muster.sessions.journal.store import AwayError
from muster.sessions.runs import completions, tenants, usage

FIRST = (Path(__file__).parent / "first.sql").read_text()
ROWS = """
INSERT INTO keys VALUES ('k', 'h', 'team-a', 1, NULL);
INSERT INTO sessions VALUES ('s', 'team-a', 1, 2, NULL, '{"type": "active"}', '{}');
INSERT INTO models VALUES ('s:train:0', 's', 'base', '{"rank": 4}', '{}', 1, 2, 3, 3, NULL, NULL, NULL);
INSERT INTO samplers VALUES ('s:sample:0', 's', 'base', NULL, NULL, NULL, 1, 2);
INSERT INTO requests VALUES ('s:train:0:4', 'team-a', 's:train:0', 4, 'optim_step', 'd', 'body', 'waiting',
    NULL, NULL, NULL, 1, NULL);
INSERT INTO requests VALUES ('s:sample:0:1', 'team-a', 's:sample:0', 1, 'sample', 'd', 'body', 'done',
    'result', 'protobuf', NULL, 1, 2);
INSERT INTO requests VALUES ('s:sample:0:2', 'team-a', 's:sample:0', 2, 'sample', 'd', 'body', 'waiting',
    NULL, NULL, NULL, 1, NULL);
INSERT INTO checkpoints VALUES ('tinker://s:train:0/weights/a', 's:train:0', 'team-a', '/there', 7, 1, NULL, 0, NULL);
"""
SHAPE = {
    "sqlite": "SELECT m.name AS held, c.name AS named, c.type AS form FROM sqlite_master AS m"
    " JOIN pragma_table_info(m.name) AS c UNION ALL SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'index'",
    "postgresql": "SELECT table_name, column_name, data_type FROM information_schema.columns"
    " WHERE table_schema = 'public' UNION ALL SELECT tablename, indexname, indexdef FROM pg_indexes"
    " WHERE schemaname = 'public' UNION ALL SELECT event_object_table, trigger_name, event_manipulation"
    " FROM information_schema.triggers",
}
BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture
async def journals(place, tmp_path):
    """Open journals of a kind, each in a place of its own, after statements were run there."""
    opened = []

    async def make(kind, before=""):
        root = tmp_path / str(len(opened))
        root.mkdir()
        url = place(kind)
        if url is None:
            _scripted(root / "journal.sqlite", before)
        elif before:
            import psycopg  # noqa: PLC0415  # only where there is a server

            with psycopg.connect(url) as link:
                typed = before.replace("REAL", "DOUBLE PRECISION").replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA")
                link.execute(typed)
        opened.append(journal_at(url, root))
        await opened[-1].open()
        return opened[-1]

    yield make
    for each in opened:
        await each.close()


def _scripted(file, script):
    earlier = sqlite3.connect(file)
    earlier.executescript(script)
    earlier.close()


async def shape(journal, kind):
    return sorted(tuple(map(str, row)) for row in await journal.rows(SHAPE[kind]))


@BOTH
async def test_the_first_journal_there_was_becomes_todays_with_its_rows(journals, kind):
    journal, new = await journals(kind, FIRST + ROWS), await journals(kind)
    assert await shape(journal, kind) == await shape(new, kind)
    assert (await tenants.right_of_id(journal, "k", 3.0)).scopes == set(tenants.SCOPES)
    kept = {row["id"]: row["body"] is not None for row in await journal.rows("SELECT id, body FROM requests")}
    assert kept == {"s:train:0:4": True, "s:sample:0:1": False, "s:sample:0:2": True}
    assert (await journal.row("SELECT sum(size) FROM requests WHERE body IS NOT NULL"))[0] == 2 * len("body")
    used = usage.Used("base", {"sampling_sample": 4})
    await journal.run(completions.answered, "s:sample:0:2", b"result", used, 5.0)
    assert [row["request"] for row in await completions.since(journal, "s:sample:0", 0, 0)] == ["s:sample:0:2"]
    assert (await journal.row("SELECT size, public FROM checkpoints"))["size"] == 7


@BOTH
async def test_a_journal_of_this_version_is_left_as_it_is(journals, kind, monkeypatch):
    journal = await journals(kind)
    monkeypatch.setattr(versions, "statements", lambda: ["this is not a statement"])
    again = type(journal)(journal.url if kind == "postgresql" else journal._file)
    await again.open()
    await again.close()


@BOTH
async def test_a_journal_of_a_newer_muster_is_refused_and_left_as_it_is(journals, kind):
    journal = await journals(kind)
    await journal.execute("UPDATE versions SET number = ?", len(versions.VERSIONS) + 1)
    again = type(journal)(journal.url if kind == "postgresql" else journal._file)
    with pytest.raises(ValueError, match=f"is of version {len(versions.VERSIONS) + 1}.*use the Muster that wrote it"):
        await again.open()
    await again.close()
    assert [row[0] for row in await journal.rows("SELECT number FROM versions")] == [len(versions.VERSIONS) + 1]


def _columns(connection, table):
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def test_each_version_is_done_once_and_in_its_order():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    one = versions.Version(rows=["INSERT INTO tenants VALUES ('one')"])
    two = versions.Version(columns=[("keys", "more", "TEXT")], rows=["UPDATE tenants SET id = 'two' WHERE id = 'one'"])
    assert versions.forward(connection, _columns, versions=[one])
    assert versions.forward(connection, _columns, versions=[one, two])
    assert not versions.forward(connection, _columns, versions=[one, two])
    assert connection.execute("SELECT id FROM tenants").fetchall() == [("two",)]
    assert "more" in _columns(connection, "keys")
    connection.close()


async def test_a_step_forward_that_fails_leaves_the_journal_of_before(tmp_path, monkeypatch):
    _scripted(tmp_path / "journal.sqlite", FIRST + ROWS)
    broken = (*versions.VERSIONS, versions.Version(rows=["UPDATE nowhere SET a = 1"]))
    monkeypatch.setattr(versions.forward, "__defaults__", (str, broken))
    journal = journal_at(None, tmp_path)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        await journal.open()
    await journal.close()
    after = sqlite3.connect(tmp_path / "journal.sqlite")
    assert "expires" not in _columns(after, "keys")
    assert {row[0] for row in after.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} == {
        "keys",
        "sessions",
        "models",
        "requests",
        "samplers",
        "checkpoints",
    }
    after.close()


async def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "journal.sqlite").write_bytes(b"something else" * 500)
    journal = journal_at(None, tmp_path)
    with pytest.raises(ValueError, match="is not the journal of a Gateway"):
        await journal.open()
    await journal.close()


async def test_a_storage_that_is_full_is_said_to_be_away_and_not_broken(tmp_path):
    journal = journal_at(None, tmp_path)
    await journal.open()
    pages = (await journal.row("PRAGMA page_count"))[0]
    await journal.run(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}"))
    insert = "INSERT INTO events VALUES (?, 'a', 1, 'e', ?)"
    with pytest.raises(AwayError, match="full"):
        await journal.execute(insert, "large", "x" * 1_000_000)
    await journal.run(lambda connection: connection.execute("PRAGMA max_page_count = 1000000"))
    assert await journal.execute(insert, "large", "x" * 1_000_000) == 1
    await journal.close()
