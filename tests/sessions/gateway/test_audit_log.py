"""Events in the audit log, which the readers of the webhook's read."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import orjson
import pytest

from muster.audit import log_files, queries, record_schema, verification
from muster.audit.sinks import RotatingFileSink
from muster.audit.writer import AuditWriter
from muster.backoffs import Backoff
from muster.sessions.runs import audits
from tests.sessions.gateways import ROOT, Gateway

SECRET = "tml-" + "s" * 43


class Audited(Gateway):
    """A Gateway with an audit log."""

    def __init__(self, folder, journal=None):
        self.log = folder / "audit.log"
        self.ENGINES = (*Gateway.ENGINES, "--audit", str(self.log))
        super().__init__(folder, journal)


@pytest.fixture(params=["sqlite", "postgresql"])
def audited(tmp_path, place, request):
    with Audited(tmp_path, place(request.param)) as made:
        yield made


def records(log):
    """Return the records of what clients did, after the chain was found to be whole."""
    lines = list(log_files.lines(log_files.rotated(log)))
    assert list(verification.verify(lines)) == []
    found = [each.record for each in queries.parsed(lines)]
    return [each for each in found if each["object"]["kind"] != "AuditLog"]


def test_what_happened_to_sessions_and_checkpoints_is_in_one_chain_through_a_new_start(audited, hand):
    one = hand(audited)
    one.create()
    saved = one.result(one.post("save_weights", {"model_id": one.model, "path": "p", "seq_id": 1})["request_id"])
    audited.end()
    audited.start()
    one.http.base_url = audited.url
    one.http.delete(f"/api/v1/training_runs/{one.model}/checkpoints/weights/p")
    reason = {"reason": {"type": "errored"}, "detail": f"the prompt was {SECRET}"}
    one.post(f"sessions/{one.session}/finish", reason, 204)
    audited.end()
    found = records(audited.log)
    assert [each["event"]["name"] for each in found] == [
        "session_created",
        "checkpoint_saved",
        "checkpoint_deleted",
        "session_ended",
    ]
    assert [(each["user"]["username"], each["object"]["kind"]) for each in found[:2]] == [
        ("team-a", "Session"),
        ("team-a", "Checkpoint"),
    ]
    assert found[1]["event"]["details"]["tinker_path"] == found[1]["object"]["name"] == saved["path"]
    assert found[3]["event"]["details"] == {"session_id": one.session, "status": "client_finished"}
    text = audited.log.read_text()
    assert "prompt" not in text
    assert audited.key not in text


def test_a_gateway_that_is_killed_says_at_its_next_start_that_records_may_be_missing(tmp_path, hand):
    with Audited(tmp_path) as gateway:
        hand(gateway).create()
        while not gateway.log.exists() or not gateway.log.read_bytes().endswith(b"\n"):
            os.sched_yield()
        gateway.kill()
        gateway.start()
        hand(gateway).create()
        gateway.end()
        (found,) = verification.verify(log_files.lines([gateway.log]))
    assert (found.kind, found.is_fault) == ("unclean", False)


def test_what_people_name_is_written_without_keys_and_at_a_length(tmp_path):
    told = {"tinker_path": f"tinker://run/weights/{SECRET}", "project_id": "x" * 9000, "display_name": "a prompt"}
    record = audits.record("team-a", "checkpoint_saved", 0.0, {**told, "source_path": "hf_" + "a" * 34})
    text = orjson.dumps(record).decode()
    assert SECRET not in text
    assert "hf_a" not in text
    assert "a prompt" not in text
    assert len(record["event"]["details"]["project_id"]) == 500
    log = AuditWriter([RotatingFileSink(tmp_path / "audit.log")])
    assert log.submit(record)
    assert log.close(60)
    [kept] = records(tmp_path / "audit.log")
    assert record_schema.misfit(kept) is None
    assert kept["event"] == record["event"]


class Full(RotatingFileSink):
    """A file on a storage that is full until it is told otherwise."""

    is_full = True

    def write(self, line):
        self._look()
        super().write(line)

    def write_all(self, lines):
        self._look()
        return super().write_all(lines)

    def _look(self):
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device", self.name)


def test_while_the_storage_is_full_events_go_elsewhere_and_the_file_says_how_many_it_lacks(tmp_path):
    file, elsewhere = Full(tmp_path / "audit.log"), RotatingFileSink(tmp_path / "elsewhere.log")
    log = AuditWriter([file], fallback=elsewhere, backoff=partial(Backoff, base=600.0, cap=600.0, least=0.5))
    names = [f"checkpoint_{number}" for number in range(4)]
    for name in names[:3]:
        assert log.submit(audits.record("team-a", name, 0.0, {})), "no request is refused for it"
    assert log.flush(60)
    file.is_full = False
    log.submit(audits.record("team-a", names[3], 0.0, {}))
    assert log.close(60)
    assert [each["event"]["name"] for each in records(tmp_path / "elsewhere.log")] == names
    [kept] = records(tmp_path / "audit.log")
    assert kept["event"]["name"] == names[0], "the first one is tried again"


def test_a_gateway_whose_file_takes_nothing_serves_all_the_same_and_prints_its_events(tmp_path, hand):
    gateway = Audited(tmp_path)
    (tmp_path / "audit.log.lock").mkdir()  # no lock, no line: root may write anything else
    with gateway:
        one = hand(gateway)
        assert one.create()["model_id"] == one.model
        line = gateway.process.stdout.readline()
    assert orjson.loads(line)["event"] == {"name": "session_created", "details": {"session_id": one.session}}
    assert not gateway.log.exists()


def test_a_file_in_no_folder_is_refused_at_the_start(tmp_path):
    gateway = Audited(tmp_path)
    words = ["serve", "--root", str(tmp_path), "--base", str(gateway.base), "--port", "0", *gateway.ENGINES[:-1]]
    command = [sys.executable, "-m", "muster.sessions.cli", *words, str(tmp_path / "no" / "audit.log")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert "its folder is missing, or it is one; name a file in a folder that exists" in done.stderr


def test_the_writer_brings_nothing_of_the_webhook_but_its_audit_log():
    program = "import sys, muster.sessions.runs.audits; print(*(each for each in sys.modules if 'strategies' in each))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert found.stdout.strip() == ""
    assert Path(audits.__file__).is_relative_to(ROOT)
