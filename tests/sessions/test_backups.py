"""A backup while a Gateway serves, and its restoration in the middle of a run of the real client."""

from __future__ import annotations

import contextlib
import gc
import signal
import sqlite3
import subprocess
import threading

import httpx
import pytest
import tinker
from tinker import types

from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum

EXAMPLES = [[1, 2, 3], [2, 3, 4, 5], [7, 8, 1]]
PROBE = [1, 2, 3, 4, 5, 6, 7, 8]
BOTH = pytest.mark.parametrize("gateway", ["sqlite", "postgresql"], indirect=True)


def learn(client):
    client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy").result()
    client.optim_step(types.AdamParams(learning_rate=0.1)).result()
    return client.forward([datum(PROBE)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data


@contextlib.contextmanager
def service(gateway):
    with tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as made:
        yield made
    del made
    gc.collect()  # closes its sockets here, where Python's warning of them is expected


def refused(gateway, *words):
    """Return the sentence with which a command ends."""
    with pytest.raises(subprocess.CalledProcessError) as failed:
        gateway.run(*words)
    assert (failed.value.returncode, failed.value.stderr.count("\n")) == (2, 1)
    return failed.value.stderr


def lost(gateway, place):
    """End a Gateway as a fault does, and have its journal gone."""
    gateway.process.send_signal(signal.SIGKILL)
    gateway.process.wait()
    gateway.process.stdout.close()
    for role in ("trainer", "sampler"):
        gateway.without(role)
    if gateway._journal:
        gateway._journal = ["--journal", place("postgresql")]
    else:
        for each in gateway.folder.glob("journal.sqlite*"):
            each.unlink()


@BOTH
def test_a_run_goes_on_from_the_weights_that_a_restored_journal_knows(gateway, place, tmp_path):
    file = tmp_path / "backup.sqlite"
    revoked = gateway.run("keys", "create", "team-a").strip()
    with service(gateway) as before:
        client = before.create_lora_training_client(str(gateway.base), rank=4, seed=3).result()
        learn(client)
        known, gone = client.save_state("known").result().path, client.save_state("gone").result().path
        assert "looked through" in gateway.run("backup", str(file))
        after = [learn(client) for _ in range(2)]
        unknown = client.save_state("unknown").result().path
        tinker.RestClient(base_url=gateway.url, api_key=gateway.key).delete_checkpoint_from_tinker_path(gone).result()
        gateway.run("keys", "revoke", revoked[:12])
        late = gateway.run("keys", "create", "team-a").strip()
        lost(gateway, place)
        told = gateway.run("restore", str(file))
        gateway.start()
        with pytest.raises((tinker.APIStatusError, tinker.RequestFailedError), match="restored from a backup of 20"):
            learn(client)
    session = client.model_id.split(":")[0]
    for line in (f"ended: session {session}", f"deleted: {gone}", "those revoked since then are valid again"):
        assert line in told
    (aside,) = gateway.folder.glob("replaced-*")
    assert str(aside) in told
    assert [each.parts[-3] for each in aside.glob("weights/*/*")] == ["weights"]  # `unknown`, and no other
    with service(gateway) as again:
        client = again.create_training_client_from_state_with_optimizer(known).result()
        assert [learn(client) for _ in range(2)] == after
        for path in (gone, unknown):
            with pytest.raises((tinker.APIStatusError, tinker.RequestFailedError), match="there are no such weights"):
                again.create_training_client_from_state(path).result()
    keys = [httpx.get(f"{gateway.url}/api/v1/sessions", headers={"X-API-Key": each}) for each in (revoked, late)]
    assert [each.status_code for each in keys] == [200, 401]
    assert "Traceback" not in (gateway.folder / "gateway-one.log").read_text()


@BOTH
def test_what_waits_when_a_journal_is_restored_fails_with_the_reason(gateway, place, tmp_path, hand):
    one = hand(gateway)
    one.create()
    id_ = one.step(5, [datum([1, 2, 3])])  # waits for those before it
    gateway.run("backup", str(tmp_path / "backup.sqlite"))
    lost(gateway, place)
    gateway.run("restore", str(tmp_path / "backup.sqlite"))
    gateway.start()
    one.http.base_url = f"{gateway.url}/"
    assert "restored from a backup" in one.result(id_)["error"]


@BOTH
def test_a_journal_is_not_restored_while_a_gateway_serves_and_no_backup_overwrites_a_file(gateway, tmp_path):
    file = tmp_path / "backup.sqlite"
    gateway.run("backup", str(file))
    kept = file.read_bytes()
    assert "take another name" in refused(gateway, "backup", str(file))
    told = refused(gateway, "restore", str(file))
    assert "another Gateway runs here" in told or "a Gateway serves with this database" in told
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (kept, 0o600)
    assert {each.name for each in file.parent.iterdir() if each.name.startswith(".")} == set()
    assert list(gateway.folder.glob("replaced-*")) == []


@BOTH
def test_a_backup_while_requests_come_has_all_that_was_answered_before_it(gateway, tmp_path, hand):
    answered, over = [], threading.Event()
    one = hand(gateway)

    def ask():
        while not over.is_set():
            made = one.post("create_session", {"tags": [], "user_metadata": None, "sdk_version": "0.38.0"})
            answered.append(made["session_id"])
            one.post(f"sessions/{made['session_id']}/finish", {"reason": {"type": "success"}}, expect=204)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for number in range(3):
            before = list(answered)
            gateway.run("backup", str(tmp_path / f"{number}.sqlite"))
            with contextlib.closing(sqlite3.connect(tmp_path / f"{number}.sqlite")) as made:
                assert set(before) <= {row[0] for row in made.execute("SELECT id FROM sessions")}
                assert made.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        over.set()
        thread.join()
    assert len(answered) > len(before) > 0


def test_the_journal_from_before_stays_beside_the_restored_one(gateway, tmp_path, hand):
    gateway.run("backup", str(tmp_path / "backup.sqlite"))
    one = hand(gateway)
    gateway.end()
    gateway.run("restore", str(tmp_path / "backup.sqlite"))
    (aside,) = gateway.folder.glob("replaced-*/journal.sqlite")
    with contextlib.closing(sqlite3.connect(aside)) as made:
        assert made.execute("SELECT id FROM sessions").fetchall() == [(one.session,)]
    assert one.session not in gateway.run("ls")


def test_a_backup_of_a_file_is_restored_to_a_database_and_back(gateway, place, tmp_path):
    gateway.run("backup", str(tmp_path / "one.sqlite"))
    gateway.end()
    files, gateway._journal = gateway._journal, ["--journal", place("postgresql")]
    gateway.run("restore", str(tmp_path / "one.sqlite"))
    listed = gateway.run("keys", "ls")
    assert "keys or sessions, which stays" in refused(gateway, "restore", str(tmp_path / "one.sqlite"))
    gateway.run("backup", str(tmp_path / "two.sqlite"))
    gateway._journal = files
    gateway.run("restore", str(tmp_path / "two.sqlite"))
    assert gateway.run("keys", "ls") == listed
    gateway.start()
    assert httpx.get(f"{gateway.url}/api/v1/sessions", headers={"X-API-Key": gateway.key}).status_code == 200


def test_a_backup_that_is_restored_elsewhere_touches_nothing_where_it_came_from(gateway, tmp_path):
    with service(gateway) as made:
        client = made.create_lora_training_client(str(gateway.base), rank=4, seed=3).result()
        path = client.save_state("kept").result().path
        client.save_weights_and_get_sampling_client().result()
        gateway.run("backup", str(tmp_path / "backup.sqlite"))
        weights = sorted(gateway.folder.glob("*weights/*/*/*"))
        (tmp_path / "there").mkdir()
        there = Gateway(tmp_path / "there")
        (there.folder / "journal.sqlite").unlink()
        assert f"deleted: {path}" in there.run("restore", str(tmp_path / "backup.sqlite"))
        there.key = gateway.key
        with there:
            assert httpx.get(f"{there.url}/api/v1/sessions", headers={"X-API-Key": there.key}).status_code == 200
        assert sorted(gateway.folder.glob("*weights/*/*/*")) == weights != []
        assert learn(client)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda file: file.write_bytes(b""), "no such table"),
        (lambda file: file.write_bytes(b"x" * 4096), "not a database"),
        (lambda file: file.write_bytes(file.read_bytes()[:-4096]), "malformed"),
        (lambda file: file.unlink(), "unable to open"),
    ],
)
def test_a_backup_that_cannot_be_read_whole_is_not_restored(gateway, tmp_path, spoil, told):
    file = tmp_path / "backup.sqlite"
    gateway.run("backup", str(file))
    gateway.end()
    spoil(file)
    assert told in refused(gateway, "restore", str(file))
    assert gateway.run("keys", "ls").startswith(gateway.key[:12])


def test_a_backup_of_another_gateway_is_not_restored_and_a_journal_that_was_emptied_is_not_backed_up(gateway, tmp_path):
    (tmp_path / "other").mkdir()
    other = Gateway(tmp_path / "other")
    other.run("backup", str(tmp_path / "other.sqlite"))
    gateway.end()
    assert "the journal is not the one" in refused(gateway, "restore", str(tmp_path / "other.sqlite"))
    for each in gateway.folder.glob("journal.sqlite*"):
        each.unlink()
    (gateway.folder / "journal.sqlite").touch()
    assert "the journal is not the one" in refused(gateway, "backup", str(tmp_path / "new.sqlite"))
    assert not (tmp_path / "new.sqlite").exists()
