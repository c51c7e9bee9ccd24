"""What a tenant can look up goes when its time is over."""

from __future__ import annotations

import pytest

from sessions.journal import entries
from sessions.journal.store import Journal
from sessions.runs import completions, events, usage
from sessions.runs.config import Config, Limits
from sessions.runs.manager import Manager

DAY = 86400.0


@pytest.fixture
async def manager(tmp_path):
    """A manager whose engines were not started, with one session in its journal."""
    made = Manager(Config(tmp_path, tmp_path, "base", 512, Limits(records=DAY)))
    await made.context.journal.open()
    insert = "INSERT INTO sessions (id, tenant, created, seen, status, about) VALUES ('s', 'team-a', 0, ?, '{}', '{}')"
    await made.context.journal.execute(insert, made.context.clock())
    yield made
    await made.context.journal.close()


async def told(journal: Journal, start: float, end: float) -> list[str]:
    return [row["event"] for row in await events.between(journal, "team-a", start, end, "all")]


async def test_events_and_usage_are_kept_for_their_time(manager):
    journal, now = manager.context.journal, manager.context.clock()
    for at, event in ((now - 3 * DAY, "session_created"), (now - 60, "session_ended")):
        await events.note(journal, "team-a", event, at)
        await journal.run(usage.note, "s:train:0", usage.Used("base", {"training": 5}), at)
    await manager.reap()
    assert await told(journal, 0, now + 1) == ["session_ended"]
    assert [row["amount"] for row in await journal.rows("SELECT amount FROM usage")] == [5]


async def test_what_is_used_in_an_hour_adds_up(manager):
    journal = manager.context.journal
    for at in (7200.0, 10799.9, 10800.0):
        await journal.run(usage.note, "s:sample:0", usage.Used("base", {"sampling_sample": 4, "training": 0}), at)
    rows = await journal.rows("SELECT hour, kind, amount FROM usage ORDER BY hour")
    assert [tuple(row) for row in rows] == [(7200, "sampling_sample", 8), (10800, "sampling_sample", 4)]


async def test_an_end_is_counted_once(manager):
    journal = manager.context.journal
    await journal.execute("INSERT INTO samplers (id, session, base, created) VALUES ('s:sample:0', 's', 'base', 0)")
    waits = entries.Request("team-a", "s:sample:0", 1, "sample", b"")
    await journal.run(entries.accept, waits, 0.0)
    used = usage.Used("base", {"sampling_sample": 4})
    for _ in range(2):
        await journal.run(completions.answered, waits.id, b"result", used, 1.0)
        await journal.run(completions.failed, waits.id, "too late", "user", 1.0)
    assert [tuple(row) for row in await completions.since(journal, "s:sample:0", 0, 0)] == [(waits.id, 1, 6)]
    assert [row["amount"] for row in await journal.rows("SELECT amount FROM usage")] == [4]
