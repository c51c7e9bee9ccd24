"""Moments at which two things happen at once, or one of them only: made by hand, so that each is met in every run."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from muster.sessions.journal import entries
from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.runs.config import Config, Limits
from muster.sessions.runs.manager import Manager
from tests.sessions.gateways import ROOT
from tests.sessions.hand import datum
from tests.sessions.test_ends_of_processes import raw
from tests.sessions.test_order import EXAMPLES, PROBE

_SESSION = (
    "INSERT INTO sessions (id, tenant, created, seen, status, about)"
    " VALUES (?, 'team-a', 0, ?, '{\"type\": \"active\"}', '{}')"
)
_MODEL = (
    "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot)"
    " VALUES (?, ?, 'base', '{}', '{}', 0, 0, ?, -1)"
)


@contextlib.contextmanager
def opened(gateway):
    with contextlib.closing(sqlite3.connect(gateway.folder / "journal.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        yield connection


def pass_of(seq):
    return entries.Request("team-a", "s:train:0", seq, "forward_backward", b"body")


@pytest.fixture
async def journal(tmp_path):
    made = SqliteJournal(tmp_path / "journal.sqlite")
    await made.open()
    await made.execute(_SESSION, "s", 0.0)
    await made.execute(_MODEL, "s:train:0", "s", 3)
    yield made
    await made.close()


async def state(journal, seq):
    row = await journal.row("SELECT state, category FROM requests WHERE seq = ?", seq)
    return tuple(row)


async def test_a_pass_that_is_kept_after_its_model_went_on_without_it_fails_in_the_same_moment(journal):
    assert await journal.run(entries.promise, pass_of(2), 1.0)
    assert await state(journal, 2) == ("failed", "server")
    assert not await journal.run(entries.promise, pass_of(2), 1.0)


async def test_a_pass_that_is_kept_after_its_model_was_unloaded_fails_in_the_same_moment(journal):
    await journal.execute("UPDATE models SET unloaded = 1")
    await journal.run(entries.promise, pass_of(4), 1.0)
    assert await state(journal, 4) == ("failed", "user")


async def test_a_model_that_goes_on_does_so_without_missing_what_came_meanwhile(journal):
    await journal.run(entries.promise, pass_of(7), 1.0)
    await journal.run(entries.promise, pass_of(5), 1.0)
    assert await journal.run(entries.skip, "s:train:0") == 4
    assert (await journal.row("SELECT done FROM models"))[0] == 4


def test_a_forward_pass_alone_leaves_nothing_to_run_again(shared, hand):
    one = hand(shared)
    one.create()
    one.result(one.step(1, [datum(PROBE)], forward_only=True))
    one.result(one.step(2, [datum(PROBE)]))
    with opened(shared) as journal:
        bodies = "SELECT kind, body IS NULL FROM requests WHERE target = ? AND seq > 0 ORDER BY seq"
        assert journal.execute(bodies, (one.model,)).fetchall() == [("forward", 1), ("forward_backward", 0)]


def test_loaded_weights_are_kept_before_it_is_told_so_that_the_checkpoint_may_go(shared, hand):
    one = hand(shared)
    one.create()
    one.result(one.step(1, [datum(EXAMPLES[0])]))
    one.result(one.optim(2))
    one.post("save_weights", {"model_id": one.model, "seq_id": 3, "path": "first"})
    path = one.result(f"{one.model}:3")["path"]
    for seq in range(4, 14):
        one.post("load_weights", {"model_id": one.model, "seq_id": seq, "path": path, "optimizer": True})
        one.result(f"{one.model}:{seq}")
        with opened(shared) as journal:
            kept = journal.execute("SELECT snapshot FROM models WHERE id = ?", (one.model,)).fetchone()
        assert kept == (seq,)


def test_a_sample_of_a_session_that_ends_meanwhile_is_not_answered_by_the_base(gateway, hand):
    one = hand(gateway)
    one.create()
    body = {"model_id": one.model, "seq_id": 1, "sampling_session_seq_id": 0, "kind": "snapshot"}
    one.post("save_weights_for_sampler", body)
    sampler = one.result(f"{one.model}:1")["sampling_session_id"]
    engine = gateway.engine("sampler")
    os.kill(engine, signal.SIGSTOP)  # so that it answers nothing until it is killed
    asked = {
        "sampling_session_id": sampler,
        "seq_id": 0,
        "prompt": {"chunks": [{"tokens": [1, 2], "type": "encoded_text"}]},
        "sampling_params": {"max_tokens": 4, "seed": 5},
    }
    id_ = one.post("asample", asked)["request_id"]
    one.post(f"sessions/{one.session}/finish", {"reason": {"type": "success"}}, expect=204)
    os.kill(engine, signal.SIGKILL)
    failed = one.result(id_)
    assert (failed["category"], "ended" in failed["error"]) == ("user", True)


def test_a_session_whose_end_was_interrupted_ends_when_the_gateway_is_there_again(gateway, hand):
    one = hand(gateway)
    one.create()
    gateway.kill()
    with opened(gateway) as journal:
        journal.execute("UPDATE sessions SET ended = 1 WHERE id = ?", (one.session,))
    gateway.start()
    with opened(gateway) as journal:
        left = "SELECT count(*) FROM models WHERE unloaded IS NULL"
        while journal.execute(left).fetchone() != (0,):
            one.http.get("/api/v1/healthz")


def test_what_waited_for_a_model_whose_unloading_was_interrupted_fails(gateway, hand):
    one = hand(gateway)
    one.create()
    gateway.kill()
    with opened(gateway) as journal:
        journal.execute("UPDATE models SET unloaded = 1 WHERE id = ?", (one.model,))
        journal.execute(
            "INSERT INTO requests (id, tenant, target, seq, kind, digest, body, state, created)"
            " VALUES (?, 'team-a', ?, 1, 'optim_step', '', '{}', 'waiting', 0)",
            (f"{one.model}:1", one.model),
        )
    gateway.start()
    assert one.result(f"{one.model}:1")["category"] == "user"


async def test_a_gateway_that_was_away_gives_each_session_the_time_of_a_heartbeat(tmp_path):
    manager = Manager(Config(tmp_path, tmp_path, "base", 16, Limits(heartbeat=60.0)))
    journal, now = manager.context.journal, 1e6
    await journal.open()
    try:
        await journal.execute(_SESSION, "s", now - 3600)
        for seconds, ended in ((0, False), (59, False), (61, True)):
            manager.context = replace(manager.context, clock=lambda at=now + seconds: at)
            await manager.reap()
            row = await journal.row("SELECT ended IS NOT NULL FROM sessions")
            assert bool(row[0]) is ended
    finally:
        await journal.close()


def test_a_checkpoint_goes_when_its_time_is_over_and_who_samples_from_it_keeps_its_weights(gateway, hand):
    one = hand(gateway)
    one.create()
    one.post("save_weights_for_sampler", {"model_id": one.model, "seq_id": 1, "path": "a", "ttl_seconds": 3600})
    path = one.result(f"{one.model}:1")["path"]
    made = {"session_id": one.session, "sampling_session_seq_id": 0, "model_path": path}
    sampler = one.post("create_sampling_session", made)["sampling_session_id"]
    asked = {
        "sampling_session_id": sampler,
        "prompt": {"chunks": [{"tokens": [1, 2], "type": "encoded_text"}]},
        "sampling_params": {"max_tokens": 4, "seed": 5},
    }
    before = raw(one, one.post("asample", asked | {"seq_id": 0})["request_id"])
    with opened(gateway) as journal:
        journal.execute("UPDATE checkpoints SET expires = 1")
        while journal.execute("SELECT count(*) FROM checkpoints").fetchone() != (0,):
            one.http.get("/api/v1/healthz")
    os.kill(gateway.engine("sampler"), signal.SIGKILL)  # so that it has to read them again
    assert raw(one, one.post("asample", asked | {"seq_id": 1})["request_id"]) == before
    one.post("create_sampling_session", made | {"sampling_session_seq_id": 1}, expect=422)


def test_an_engine_whose_gateway_was_killed_while_it_loaded_leaves_the_socket_of_the_next_one_alone(tmp_path):
    socket = tmp_path / "trainer.sock"
    socket.write_text("of the next one")
    command = [
        sys.executable,
        "-m",
        "muster.sessions.engines.process",
        "--base",
        str(tmp_path),
        "--socket",
        str(socket),
    ]
    engine = subprocess.Popen([*command, "--trainer", "tests.sessions.bigram:Trainer"], stdin=subprocess.PIPE, cwd=ROOT)
    engine.stdin.close()
    assert engine.wait() == 0
    assert socket.read_text() == "of the next one"


def test_weights_that_replace_published_ones_are_not_published(shared, hand):
    one = hand(shared)
    one.create()
    one.post("save_weights", {"model_id": one.model, "seq_id": 1, "path": "a"})
    one.result(f"{one.model}:1")
    one.post(f"training_runs/{one.model}/checkpoints/weights/a/publish", {}, expect=204)
    one.post("save_weights", {"model_id": one.model, "seq_id": 2, "path": "a", "overwrite": True})
    one.result(f"{one.model}:2")
    (found,) = one.http.get(f"/api/v1/training_runs/{one.model}/checkpoints").json()["checkpoints"]
    assert not found["public"]
