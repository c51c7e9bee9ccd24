"""A log that somebody cuts, removes or replaces while it is written, and processes that are killed in the middle."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request

import orjson
import pytest

from muster.audit import log_files, record_schema, sinks, verification, writer
from muster.webhook.cli.main import main
from tests.audit.conftest import _record
from tests.server import test_service
from tests.server.conftest import ROOT, review

PATIENCE = 60.0
PROGRAM = """
import itertools, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from muster.audit import sinks, writer
from tests.audit.conftest import _record
audit = writer.AuditWriter([sinks.RotatingFileSink(Path(sys.argv[1]))])
for number in itertools.count(1):
    audit.submit(_record(uid=str(number)))
    if number % 100 == 0:
        audit.flush(60)
        print(number, flush=True)
"""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def errors():
    return []


@pytest.fixture
def audit(log, errors):
    made = writer.AuditWriter([sinks.RotatingFileSink(log)], on_error=lambda *error: errors.append(error))
    yield made
    made.close(PATIENCE)


def _written(audit, *uids):
    for uid in uids:
        audit.submit(_record(uid=uid))
    assert audit.flush(PATIENCE)


def _named(log):
    lines = log_files.lines(log_files.rotated(log))
    return [record_schema.event_name(each) or each["uid"] for each in (orjson.loads(line.data) for line in lines)]


def _problems(log):
    return [(each.kind, each.message) for each in verification.verify(log_files.lines(log_files.rotated(log)))]


DAMAGES = {
    "truncated": lambda log: os.truncate(log, 0),
    "removed": lambda log: log.unlink(),
    "replaced": lambda log: (log.unlink(), log.write_bytes(b"")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_that_is_damaged_while_it_is_written_says_so_and_verify_finds_it(damage, audit, log, errors, caplog):
    _written(audit, "a", "b")
    last = orjson.loads(log.read_bytes().splitlines()[-1])
    DAMAGES[damage](log)
    with caplog.at_level(logging.WARNING):
        _written(audit, "c", "d")
    assert _named(log) == ["log_damaged", "c", "d"]
    told = orjson.loads(log.read_bytes().splitlines()[0])
    assert told["event"]["details"] == {"record": f"2:{last['hash']}", "status": damage}
    assert record_schema.misfit(told) is None
    assert [each.getMessage() for each in caplog.records] == ["audit log damaged"]
    assert [str(error) for _, error in errors] == [f"the file was {damage}"]
    begins = "this chain begins at record 3; what stood before is not known"
    assert _problems(log) == [("removed", f"{begins}, since the file was damaged while it was written")]


def test_of_a_file_that_loses_its_end_the_lost_records_are_told(audit, log):
    _written(audit, "a", "b", "c")
    os.truncate(log, len(log.read_bytes().splitlines(keepends=True)[0]))
    _written(audit, "d")
    assert _named(log) == ["a", "log_damaged", "d"]
    assert _problems(log) == [("removed", "records 2 to 3 are missing before this line")]


def test_an_older_copy_in_place_of_the_log_is_told(audit, log):
    _written(audit, "a")
    copy = log.read_bytes()
    _written(audit, "b")
    log.unlink()
    log.write_bytes(copy)
    _written(audit, "c")
    assert _named(log) == ["a", "log_damaged", "c"]
    assert _problems(log) == [("removed", "record 2 is missing before this line")]


def _blank(log):
    log.write_bytes(b"\n" * log.stat().st_size)


def _blank_the_last(log):
    *kept, last = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(kept) + b"\n" * len(last))


@pytest.mark.parametrize("damage", [_blank, _blank_the_last])
def test_records_that_are_blanked_in_place_are_found(damage, audit, log, capsys):
    _written(audit, "a", "b")
    damage(log)
    _written(audit, "c")
    assert [kind for kind, message in _problems(log) if "Muster writes no empty line" in message] == ["removed"]
    assert main(["audit", "verify", str(log)]) == 1
    assert "Muster writes no empty line" in capsys.readouterr().out


@pytest.mark.parametrize("blank", [b"\n", b" "])
def test_records_that_are_blanked_at_the_end_of_a_file_are_found_though_nothing_follows(blank, log, capsys):
    audit = writer.AuditWriter([sinks.RotatingFileSink(log, max_bytes=3000)])
    _written(audit, *"abcdef")
    assert audit.close(PATIENCE)
    files = log_files.rotated(log)
    for file in (files[0], files[-1]):  # the oldest, before which nothing stands, and the newest
        whole = file.read_bytes()
        file.write_bytes(blank * (len(whole) - 1) + b"\n")
        assert {kind for kind, _ in _problems(log)} <= {"removed", "begins"}
        assert main(["audit", "verify", str(log)]) == 1
        assert "empty at the end of this file; Muster writes no empty line" in capsys.readouterr().out
        assert main(["audit", "ls", str(log)]) == 0
        file.write_bytes(whole)
    assert main(["audit", "verify", str(log)]) == 0


def test_a_file_that_logrotate_copies_and_truncates_lost_nothing(audit, log, errors):
    _written(audit, "a", "b")
    shutil.copy(log, f"{log}.1")
    os.truncate(log, 0)
    _written(audit, "c")
    assert (_named(log), _problems(log), errors) == (["a", "b", "c"], [], [])


def test_a_copy_from_before_the_last_record_does_not_hide_that_a_file_was_truncated(audit, log):
    _written(audit, "a")
    shutil.copy(log, f"{log}.1")
    _written(audit, "b")
    os.truncate(log, 0)
    _written(audit, "c")
    assert _named(log) == ["a", "log_damaged", "c"]


def test_empty_lines_between_records_are_found(audit, log):
    _written(audit, "a", "b")
    log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n\n  \n"))
    told = [
        f"2 lines are empty {where}; Muster writes no empty line"
        for where in ("before this line", "at the end of this file")
    ]
    assert _problems(log) == [("removed", each) for each in told]


def test_a_file_that_is_renamed_as_rotation_does_lost_nothing(audit, log, errors):
    _written(audit, "a")
    log.rename(f"{log}.1")
    _written(audit, "b")
    assert (_named(log), _problems(log), errors) == (["a", "b"], [], [])


def test_a_log_without_its_first_file_says_where_it_begins_and_is_intact(log, capsys):
    audit = writer.AuditWriter([sinks.RotatingFileSink(log, max_bytes=1, backups=2)])
    _written(audit, *"abcdef")
    assert audit.close(PATIENCE)
    assert main(["audit", "verify", str(log)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{log}.2:1: begins: this chain begins at record 5; what stood before is not known\n"
    assert said.err.endswith("the chain is intact\n")


def test_a_process_that_is_killed_leaves_a_start_without_a_clean_end(log, capsys):
    for start in range(3):
        command = [sys.executable, "-c", PROGRAM.format(root=str(ROOT)), str(log)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        assert _named(log).count("log_started") == start
    audit = writer.AuditWriter([sinks.RotatingFileSink(log)])
    _written(audit, "a")
    assert audit.close(PATIENCE)
    again = writer.AuditWriter([sinks.RotatingFileSink(log)])
    _written(again, "b")
    assert again.close(PATIENCE)
    assert _named(log)[-5:] == ["a", "log_stopped", "log_started", "b", "log_stopped"]
    main(["audit", "verify", str(log)])
    said = capsys.readouterr().out
    assert "3 starts without a clean end: reviews of the last moments before each may be missing" in said
    assert {line.split(": ")[1] for line in said.splitlines()} <= {"unclean", "torn"}


def test_a_service_that_is_killed_says_so_at_its_next_start(tmp_path, log):
    path = test_service.written(tmp_path)
    for stop in (signal.SIGKILL, signal.SIGTERM, signal.SIGTERM):
        with test_service.ended(test_service.started(path)) as process:
            port = next(line["port"] for line in map(json.loads, process.stderr) if line["message"] == "serving")
            context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
            for _ in range(5):
                body = urllib.request.Request(  # it is the service's own port
                    f"https://localhost:{port}/mutate/trainjobs",
                    orjson.dumps(review()),
                    {"Content-Type": "application/json"},
                )
                with urllib.request.urlopen(body, context=context) as answer:  # noqa: S310  # as above
                    assert answer.status == 200
            if stop == signal.SIGKILL:  # a record is there, so that there is a log to continue
                _until_there(log)
            process.send_signal(stop)
            process.wait(PATIENCE)
    named = _named(log)
    assert named.count("u1") in range(11, 16)
    ends = [orjson.loads(line)["event"]["details"] for line in log.read_bytes().splitlines() if b"log_started" in line]
    assert ends == [{"status": "unclean"}, {"status": "clean"}]
    assert named[-1] == "log_stopped"
    assert [kind for kind, _ in _problems(log) if kind != "torn"] == ["unclean"]


def _until_there(log):
    while not (log.exists() and b"\n" in log.read_bytes()):
        os.sched_yield()
