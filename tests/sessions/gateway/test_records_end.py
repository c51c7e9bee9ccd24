"""What a tenant can look up goes when its time is over."""

from __future__ import annotations

import pytest

from muster.sessions.journal import entries
from muster.sessions.journal.store import Journal
from muster.sessions.runs import completions, endings, events, forgetting, quotas, usage
from muster.sessions.runs.config import Config, Limits
from muster.sessions.runs.manager import Manager

DAY = 86400.0


@pytest.fixture(params=["sqlite", "postgresql"])
async def manager(tmp_path, place, request):
    """A manager whose engines were not started, with one session in its journal."""
    made = Manager(Config(tmp_path, tmp_path, "base", 512, Limits(records=DAY), journal=place(request.param)))
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


async def test_who_reads_weights_again_and_again_hides_nothing_that_their_owner_did(manager, monkeypatch):
    monkeypatch.setattr(events, "MOST", 4)
    journal, heard = manager.context.journal, []
    journal.heard = lambda *event: heard.append(event)
    checkpoint = {"path": "tinker://s:train:0/weights/w", "tenant": "team-a"}
    await events.note(journal, "team-a", "checkpoint_published", 0.0)
    for at in (1.0, 2.0, 3599.0, 3599.5, 3600.0, 7199.0):
        await events.read(journal, checkpoint, "team-b", "sample", at)
    assert await told(journal, 0, 7200) == ["checkpoint_published", "checkpoint_read", "checkpoint_read"]
    assert [(tenant, at) for tenant, _, at, _ in heard] == [
        ("team-a", 0.0),
        *((tenant, at) for at in (1.0, 3600.0) for tenant in ("team-b", "team-a")),
    ]


async def test_another_reader_purpose_or_checkpoint_is_told_in_the_same_hour(manager):
    journal = manager.context.journal
    first, second = ({"path": f"tinker://s:train:0/weights/{name}", "tenant": "team-a"} for name in "vw")
    for checkpoint, reader, purpose in (
        (first, "team-b", "sample"),
        (first, "team-b", "train"),
        (first, "team-c", "sample"),
        (second, "team-b", "sample"),
        (first, "team-b", "sample"),
    ):
        await events.read(journal, checkpoint, reader, purpose, 1.0)
    assert await told(journal, 0, 2) == ["checkpoint_read"] * 4


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


async def test_a_sample_of_a_session_that_has_ended_ends_though_no_sampler_is_there(manager):
    journal = manager.context.journal
    await journal.execute("INSERT INTO samplers (id, session, base, created) VALUES ('s:sample:0', 's', 'base', 0)")
    waits = entries.Request("team-a", "s:sample:0", 1, "sample", b"")
    await journal.run(entries.accept, waits, 0.0)
    await manager.end("s", {"type": "client_finished"})
    row = await journal.row("SELECT state, category, result FROM requests")
    assert (row["state"], row["category"], b"begin a new one" in bytes(row["result"])) == ("failed", "user", True)


async def test_a_session_that_was_heard_of_while_others_were_ended_goes_on(manager):
    journal, now = manager.context.journal, manager.context.clock()
    cancelled = {"type": "cancelled"}
    assert not await endings.end(journal, "s", cancelled, now, silent=now - 600)
    assert await journal.rows("SELECT id FROM sessions WHERE ended IS NOT NULL") == []
    assert await endings.end(journal, "s", cancelled, now)
    assert not await endings.end(journal, "s", cancelled, now)
    assert await told(journal, 0, now + 1) == ["session_ended"]


async def test_an_end_whose_event_cannot_be_kept_is_not_kept(manager):
    journal, now = manager.context.journal, manager.context.clock()
    await _checkpoint(journal, "/there", now - 1)
    await journal.execute("ALTER TABLE events RENAME TO elsewhere")
    with pytest.raises(Exception, match=r"events|damaged"):
        await endings.end(journal, "s", {"type": "cancelled"}, now)
    with pytest.raises(Exception, match=r"events|damaged"):
        await endings.delete(journal, await journal.row("SELECT * FROM checkpoints"), now)
    await journal.execute("ALTER TABLE elsewhere RENAME TO events")
    assert await journal.rows("SELECT id FROM sessions WHERE ended IS NOT NULL") == []
    assert len(await journal.rows("SELECT path FROM checkpoints")) == 1


async def _checkpoint(journal, folder, expires):
    insert = "INSERT INTO checkpoints (path, run, tenant, folder, size, created, expires) VALUES (?, ?, ?, ?, 1, 0, ?)"
    await journal.execute(insert, "tinker://s:train:0/weights/a", "s:train:0", "team-a", str(folder), expires)


async def test_weights_that_replaced_others_go_with_their_name(manager, tmp_path):
    journal, now = manager.context.journal, manager.context.clock()
    before, after = tmp_path / "before", tmp_path / "after"
    after.mkdir()
    await _checkpoint(journal, before, None)
    seen = await journal.row("SELECT * FROM checkpoints")
    await journal.execute("UPDATE checkpoints SET folder = ?", str(after))
    await endings.delete(journal, seen, now)
    assert not after.exists()


async def test_a_checkpoint_that_was_given_more_time_does_not_expire(manager, tmp_path):
    journal, now = manager.context.journal, manager.context.clock()
    await _checkpoint(journal, tmp_path / "a", now + 3600)
    await endings.expire(journal, await journal.row("SELECT * FROM checkpoints"), now)
    assert len(await journal.rows("SELECT path FROM checkpoints")) == 1
    await endings.expire(journal, await journal.row("SELECT * FROM checkpoints"), now + 3601)
    await endings.expire(journal, {"path": "tinker://s:train:0/weights/a"}, now + 3601)
    assert await told(journal, 0, now + 9999) == ["checkpoint_expired"]


async def test_inflight_weights_go_with_their_session(manager, tmp_path):
    journal = manager.context.journal
    held = [tmp_path / "4", tmp_path / "6"]
    for each in held:
        each.mkdir()
    await journal.execute(
        "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot, inflight, inflight_old)"
        " VALUES ('s:train:0', 's', 'base', '{}', '{}', 0, 0, 7, -1, ?, ?)",
        *map(str, held),
    )
    await manager.reap()
    assert [each.exists() for each in held] == [True, True]
    await manager.end("s", {"type": "client_finished"})
    assert [each.exists() for each in held] == [False, False]


async def _ended(journal, id_, ended):
    """Keep a session that has ended, with everything that a session has."""
    insert = (
        "INSERT INTO sessions (id, tenant, created, seen, ended, status, about) VALUES (?, 'a', 0, 0, ?, '{}', '{}')"
    )
    await journal.execute(insert, id_, ended)
    model = (
        "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot, unloaded)"
        " VALUES (?, ?, 'base', '{}', '{}', 0, 0, 1, -1, 1)"
    )
    await journal.execute(model, f"{id_}:train:0", id_)
    await journal.execute("INSERT INTO samplers (id, session, base, created) VALUES (?, ?, 'b', 0)", f"{id_}:s:0", id_)
    await journal.execute(
        "INSERT INTO steps (target, number, tokens, metrics) VALUES (?, 1, 1, '{}')", f"{id_}:train:0"
    )
    waits = entries.Request("a", f"{id_}:s:0", 1, "sample", b"")
    await journal.run(entries.accept, waits, 0.0)
    await journal.run(completions.answered, waits.id, b"result", usage.Used("base", {"sampling_sample": 1}), ended)


async def test_a_session_that_ended_long_ago_is_forgotten_unless_it_keeps_weights(manager):
    journal, now = manager.context.journal, manager.context.clock()
    for id_, ended in (("old", now - 2 * DAY), ("kept", now - 2 * DAY), ("new", now - 60)):
        await _ended(journal, id_, ended)
    insert = "INSERT INTO checkpoints (path, run, tenant, folder, size, created) VALUES (?, ?, 'a', '/there', 1, 0)"
    await journal.execute(insert, "tinker://kept:train:0/weights/a", "kept:train:0")
    await manager.reap()
    assert {row["id"] for row in await journal.rows("SELECT id FROM sessions")} == {"s", "kept", "new"}
    assert len(await journal.rows("SELECT id FROM models")) == 2
    assert len(await journal.rows("SELECT id FROM samplers")) == 2
    assert {row["target"] for row in await journal.rows("SELECT target FROM steps")} == {"kept:train:0", "new:train:0"}
    assert [row["request"] for row in await journal.rows("SELECT request FROM completions")] == ["new:s:0:1"]


async def test_the_oldest_results_of_a_tenant_go_when_there_are_more_bytes_than_may_be(manager):
    journal, now = manager.context.journal, manager.context.clock()
    await journal.execute("INSERT INTO samplers (id, session, base, created) VALUES ('s:sample:0', 's', 'base', 0)")
    used = usage.Used("base", {"sampling_sample": 1})
    for tenant, numbers in (("a", range(1, 6)), ("b", range(6, 9))):
        for seq in numbers:
            waits = entries.Request(tenant, "s:sample:0", seq, "sample", b"")
            await journal.run(entries.accept, waits, now)
            await journal.run(completions.answered, waits.id, b"0123456789", used, now + seq)
    last = entries.Request("a", "s:train:0", 1, "forward_backward", b"kept")
    await journal.run(entries.accept, last, now)
    await journal.run(entries.finish, last.id, b"of a pass", "protobuf", now)
    limits = quotas.Quotas(default=quotas.Quota(result_bytes=31), tenants={"b": quotas.Quota()})
    assert await forgetting.surplus(journal, limits) == ["a"]
    assert await forgetting.surplus(journal, limits) == []
    left = [row["id"] for row in await journal.rows("SELECT id FROM requests ORDER BY target, seq")]
    assert left == [*(f"s:sample:0:{seq}" for seq in (4, 5, 6, 7, 8)), last.id]
    ends = await completions.since(journal, "s:sample:0", 0, 0)
    assert [row["number"] for row in ends] == [4, 5, 6, 7, 8]
