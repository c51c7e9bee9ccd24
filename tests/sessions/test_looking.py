"""What an operator sees of sessions, and what he ends and deletes, by `muster sessions`."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import resources

import pytest

from muster.sessions.cli import pages, texts
from muster.sessions.journal import progress
from tests.sessions.gateways import ROOT, Gateway
from tests.sessions.hand import PROTOBUF, datum

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)]
of_both = pytest.mark.parametrize("shared", BOTH, indirect=True)
BAD = "\x1b]0;owned\x07\u202eevil"


def command(gateway, *args):
    line = [sys.executable, "-m", "muster.sessions.cli", *args, "--root", str(gateway.folder), *gateway._journal]
    return subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)


def shown(gateway, session):
    return json.loads(gateway.run("show", session, "--json"))


def saved(one, seq, name):
    body = {"model_id": one.model, "seq_id": seq, "path": name}
    return one.result(one.post("save_weights", body)["request_id"])["path"]


@of_both
def test_a_run_is_shown_with_the_tokens_and_metrics_of_its_steps(shared, hand):
    one = hand(shared)
    one.create()
    passes = [one.result(one.step(seq, [datum([1, 2, 3, 4])])) for seq in (1, 2)]
    one.result(one.optim(3))
    one.result(one.step(4, [datum([1, 2])]))
    stepped = one.result(one.optim(5))
    [run] = shown(shared, one.session)["runs"]
    assert [(each["number"], each["tokens"]) for each in run["last_steps"]] == [(1, 6), (2, 1)]
    losses = [each.metrics["loss:sum"] for each in passes]
    assert run["last_steps"][0]["metrics"]["loss:sum"] == pytest.approx(sum(losses))
    assert run["last_steps"][1]["metrics"]["grad_norm:mean"] == stepped["metrics"]["grad_norm:mean"]
    assert run["tokens_per_second"] > 0
    assert (run["steps"], run["requests"], run["waiting"], run["queue"]) == (2, 5, 0, [])
    text = shared.run("show", one.session)
    assert f"session {one.session} of team-a: active" in text
    assert "tokens: 7 trained, 0 read and 0 sampled" in text
    assert "step 2 at" in text


def test_a_step_whose_passes_ran_again_on_another_trainer_is_counted_once(gateway, hand):
    one = hand(gateway)
    one.create()
    one.result(one.step(1, [datum([1, 2, 3, 4])]))
    os.kill(gateway.engine("trainer"), signal.SIGKILL)
    one.result(one.optim(2))
    [run] = shown(gateway, one.session)["runs"]
    assert [(each["number"], each["tokens"]) for each in run["last_steps"]] == [(1, 3)]


@pytest.mark.parametrize("gateway", BOTH, indirect=True)
def test_what_waits_is_shown_with_the_reason(gateway, hand):
    one = hand(gateway)
    one.create()
    trainer = gateway.engine("trainer")
    os.kill(trainer, signal.SIGSTOP)
    try:
        for seq in (1, 2, 4):
            one.step(seq, [datum([1, 2, 3])])
        view = shown(gateway, one.session)
        text = gateway.run("show", one.session)
    finally:
        os.kill(trainer, signal.SIGCONT)
    [run] = view["runs"]
    assert [each["seq"] for each in run["queue"]] == [1, 2, 4]
    assert run["queue"][0]["why"] == view["engines"]["trainer"]
    assert "the trainer does not answer" in run["queue"][0]["why"]
    assert run["queue"][1]["why"] == "request 1 is before it"
    assert run["queue"][2]["why"] == "request 3 has not arrived"
    assert view["engines"]["sampler"] is None
    assert "3 requests wait, first forward_backward 1 since" in text
    assert f"\n  {view['engines']['trainer']}\n" in text


def test_failures_are_shown_and_names_that_a_tenant_chose_cannot_move_the_cursor(shared, hand):
    one = hand(shared)
    session = one.post("create_session", {"tags": [BAD], "user_metadata": None, "sdk_version": "0.38.0"})["session_id"]
    one.session, one.model = session, f"{session}:train:0"
    one.create()
    body = {"model_id": one.model, "seq_id": 1, "path": f"tinker://{one.model}/weights/none", "optimizer": False}
    failed = one.result(one.post("load_weights", body)["request_id"])
    [error] = shown(shared, session)["errors"]
    assert (error["category"], error["kind"], error["text"]) == ("user", "load_weights", failed["error"])
    text = shared.run("show", session)
    assert failed["error"] in text
    assert r"\x1b]0;owned\x07\u202eevil" in text
    assert all(each.isprintable() for each in text.replace("\n", ""))


def test_the_view_that_follows_ends_with_its_session(shared, hand):
    one = hand(shared)
    line = [sys.executable, "-m", "muster.sessions.cli", "show", one.session, "--follow", "--json", "--root"]
    with subprocess.Popen([*line, str(shared.folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as following:
        first = json.loads(following.stdout.readline())
        assert (first["status"], first["ended"]) == ("active", None)
        assert command(shared, "end", one.session).returncode == 0
        last = [json.loads(each) for each in following.stdout][-1]
    assert following.returncode == 0
    assert last["status"] == "cancelled"
    assert last["detail"] == "the operator of the Gateway ended this session"


@of_both
def test_a_session_that_its_operator_ended_is_over_for_its_client(shared, hand):
    one = hand(shared)
    one.create()
    assert command(shared, "end", one.session).returncode == 0
    beat = {"session_id": one.session}
    assert one.http.post("/api/v1/session_heartbeat", json=beat, headers=PROTOBUF).status_code == 410
    again = command(shared, "end", one.session)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == f"sessions: {one.session}: this session has ended before\n"


def test_a_session_that_is_not_there_is_said_so(shared):
    for word in ("show", "end"):
        done = command(shared, word, BAD)
        assert done.returncode == 1
        assert done.stderr.endswith("there is no such session; `ls` lists them\n")
        assert "\x1b" not in done.stderr


def test_sessions_are_listed_up_to_a_limit(gateway, hand):
    ids = [hand(gateway).session for _ in range(3)]
    found = json.loads(gateway.run("ls", "--json", "--limit", "2"))
    assert ([each["id"] for each in found["sessions"]], found["more"]) == (ids[1:], True)
    done = command(gateway, "ls")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ids
    assert done.stderr == ""
    assert command(gateway, "ls", "--limit", "0").returncode == 2


@of_both
def test_checkpoints_are_listed_and_deleted_by_path_run_and_session(shared, hand):
    one, other = hand(shared), hand(shared)
    for each in (one, other):
        each.create()
    kept = saved(other, 1, "kept")
    paths = [saved(one, seq, f"at-{seq}") for seq in (1, 2)]
    found = json.loads(shared.run("checkpoints", "ls", "--run", one.model, "--json"))["checkpoints"]
    assert [each["path"] for each in found] == paths
    folder = shared.folder / "weights"
    assert len([*folder.glob("*/*")]) == 3
    assert shared.run("checkpoints", "rm", paths[0]) == f"{paths[0]}\n"
    assert command(shared, "checkpoints", "rm", paths[0]).returncode == 1
    assert shared.run("checkpoints", "rm", "--session", one.session) == f"{paths[1]}\n"
    assert [each.split()[0] for each in shared.run("checkpoints", "ls").splitlines()] == [kept]
    assert len([*folder.glob("*/*")]) == 1
    assert command(shared, "checkpoints", "rm").returncode == 2


def test_looking_makes_no_journal_where_there_is_none(tmp_path):
    nowhere = Gateway.__new__(Gateway)
    nowhere.folder, nowhere._journal = tmp_path / "nowhere", []
    done = command(nowhere, "ls")
    assert done.returncode == 2
    assert done.stderr == f"sessions: {nowhere.folder}: no Gateway has a journal there; pass the --root of `serve`\n"
    assert not nowhere.folder.exists()


def test_the_last_steps_are_kept_and_passes_are_joined_by_their_reduction():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        connection.executescript(resources.files("muster.sessions.journal").joinpath("schema.sql").read_text())
        for number in range(1, progress.KEPT + 3):
            progress.passed(connection, "m", 2, {"loss:sum": 1.0, "low:min": 3.0, "high:max": 3.0, "of:mean": 3.0})
            progress.passed(connection, "m", 3, {"loss:sum": 0.5, "low:min": 5.0, "high:max": 5.0, "of:mean": 5.0})
            progress.stepped(connection, "m", {"grad_norm:mean": 1.0}, number)
        progress.passed(connection, "m", 9, {})
        progress.forgotten(connection, "m")
        rows = connection.execute("SELECT * FROM steps ORDER BY number").fetchall()
    assert [each["number"] for each in rows] == [*range(3, progress.KEPT + 3)]
    assert rows[0]["tokens"] == 5
    joined = {"loss:sum": 1.5, "low:min": 3.0, "high:max": 5.0, "of:mean": 5.0, "grad_norm:mean": 1.0}
    assert json.loads(rows[0]["metrics"]) == joined


def test_a_loss_that_is_no_number_is_shown_as_what_it_is():
    step = {"number": 1, "at": 0.0, "tokens": 2, "metrics": {"loss:sum": None}}
    run = {"id": "m", "base": "b", "rank": 1, "steps": 1, "tokens_per_second": None, "last_steps": [step]}
    run |= {"unloaded": None, "on_disk": None, "checkpoints": 0, "waiting": 0}
    told = "\n".join(pages._run(run))
    assert "loss:sum not finite" in told
    assert "loss of a token: ! nan to nan" in told
    assert texts.spark([0.0, 1.0, float("inf"), 2.0]) == "▁▅!█"
