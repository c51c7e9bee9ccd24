"""`muster audit`: list, show and verify the log of decisions."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import signal
import ssl
import subprocess
import sys
import typing
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from muster.audit import chain, record_schema
from muster.webhook import kubeyaml
from muster.webhook.cli import commandline, main
from muster.webhook.cli.commands import audit_serve

ROOT = Path(__file__).parents[2]


def record(number, **fields):
    moment = datetime.datetime(2026, 3, 1, 8, number, tzinfo=datetime.UTC)
    return {
        "schema": record_schema.SCHEMA,
        "time": record_schema.timestamp(moment),
        "uid": f"uid-{number}",
        "user": {"username": "alice", "groups": ["team-a"]},
        "operation": "CREATE",
        "phase": "mutate",
        "object": {"kind": "TrainJob", "namespace": "team-a", "name": f"job-{number}"},
        "owner": None,
        "runtime": {"kind": "ClusterTrainingRuntime", "name": "trl-distributed", "source": "live"},
        "framework": "trl",
        "strategy": {"framework": "trl", "version": "1", "origin": "in-tree"},
        "mode": "enforce",
        "dryRun": False,
        "decision": "patched",
        "changes": [],
        "findings": [],
        "latencyMicroseconds": 300,
        **fields,
    }


@pytest.fixture
def log(write):
    """A log of four records, the oldest two in a rotated file; returns the path of the newest file."""
    link = chain.Chain()
    jobset = {"kind": "JobSet", "namespace": "team-b", "name": "", "generateName": "sft-"}
    owner = {"kind": "TrainJob", "name": "parent", "uid": "p"}
    lines = [
        link.seal(record(1)),
        link.seal(record(2, user={"username": "bob"}, decision="denied", phase="validate")),
        link.seal(record(3, object=jobset, owner=owner, framework="vllm", dryRun=True)),
        link.seal(record(4, framework=None, mode="warn", decision="unchanged")),
    ]
    write("audit.log.1", b"".join(lines[:2]))
    return write("audit.log", b"".join(lines[2:]))


def listed(muster, log, *options):
    result = muster("audit", "ls", log, *options)
    assert result.code == 0
    return [line.split("uid=")[1].split()[0] for line in result.out.splitlines()]


def test_one_line_is_listed_for_each_record_oldest_first_with_the_rotated_files(muster, log):
    assert listed(muster, log) == ["uid-1", "uid-2", "uid-3", "uid-4"]
    lines = muster("audit", "ls", log).out.splitlines()
    assert lines[1].split("  ")[:5] == [
        "2026-03-01T08:02:00Z",
        "#2",
        "CREATE/validate",
        "denied",
        "TrainJob team-a/job-2",
    ]
    assert "JobSet team-b/sft-*" in lines[2]
    assert lines[2].endswith("dry-run")


@pytest.mark.parametrize(
    ("options", "uids"),
    [
        (["--job", "job-2"], ["uid-2"]),
        (["--job", "job-*"], ["uid-1", "uid-2", "uid-4"]),
        (["--job", "parent"], ["uid-3"]),
        (["--namespace", "team-b"], ["uid-3"]),
        (["--user", "bob"], ["uid-2"]),
        (["--decision", "denied"], ["uid-2"]),
        (["--framework", "vllm"], ["uid-3"]),
        (["--kind", "JobSet"], ["uid-3"]),
        (["--since", "2026-03-01T08:03:00Z"], ["uid-3", "uid-4"]),
        (["--until", "2026-03-01T08:02:00+00:00"], ["uid-1"]),
        (["--since", "1d"], []),
        (["--user", "alice", "--decision", "patched", "--kind", "TrainJob"], ["uid-1"]),
    ],
)
def test_filters_choose_records_and_all_must_hold(muster, log, options, uids):
    assert listed(muster, log, *options) == uids


def test_a_time_that_is_none_is_an_error(muster, log):
    result = muster("audit", "ls", log, "--since", "yesterday")
    assert result.code == 2
    assert result.err.startswith("muster: --since: 'yesterday' is not a time")


def test_json_lists_whole_records_by_line(muster, log):
    lines = muster("audit", "ls", "-o", "json", log).out.splitlines()
    assert [json.loads(line)["uid"] for line in lines] == ["uid-1", "uid-2", "uid-3", "uid-4"]


@pytest.mark.parametrize("options", [["--uid", "uid-3"], ["--seq", "3"]])
def test_a_record_is_shown_in_full(muster, log, options):
    result = muster("audit", "show", log, *options)
    shown = kubeyaml.load(result.out)
    assert (shown["uid"], shown["owner"]["name"], shown["seq"]) == ("uid-3", "parent", 3)
    assert muster("audit", "show", "-o", "json", log, *options).json() == [shown]
    assert shown["schema"] == "muster.dev/audit/v1"


def test_a_record_that_is_not_there_is_said(muster, log):
    result = muster("audit", "show", log, "--uid", "nobody")
    assert (result.code, result.out, result.err) == (1, "", "muster: there is no record with uid nobody\n")


def test_an_untouched_log_is_intact(muster, log):
    result = muster("audit", "verify", log)
    assert (result.code, result.out) == (0, "")
    assert "4 lines read\nthe chain is intact\n" in result.err


def test_a_changed_line_is_found_with_file_and_line(muster, log):
    elder = log.with_name("audit.log.1")
    elder.write_bytes(elder.read_bytes().replace(b'"bob"', b'"eve"'))
    result = muster("audit", "verify", log)
    assert result.code == 1
    assert result.out.startswith(f"{elder}:2: edited: ")


def test_a_removed_line_is_found(muster, log):
    log.write_bytes(log.read_bytes().split(b"\n", 1)[1])
    result = muster("audit", "verify", log)
    assert result.code == 1
    assert f"{log}:1: removed: record 3 is missing" in result.out


def test_elders_that_are_named_too_are_read_once(muster, log):
    result = muster("audit", "verify", log.with_name("audit.log.1"), log)
    assert (result.code, result.err.count("lines read")) == (0, 1)
    assert listed(muster, log, log.with_name("audit.log.1")) == ["uid-1", "uid-2", "uid-3", "uid-4"]


def test_several_logs_are_each_a_chain_of_their_own(muster, log, write):
    other = write("other.log", chain.Chain().seal(record(1)))
    assert muster("audit", "verify", log, other).code == 0


def test_a_collected_log_of_several_processes_is_intact_when_restarts_are_accepted(muster, write):
    path = write("all.log", chain.Chain().seal(record(1)) + chain.Chain().seal(record(2)))
    assert muster("audit", "verify", path).code == 1
    assert muster("audit", "verify", path, "--restarts").code == 0


def test_a_log_may_come_from_stdin(muster, log):
    lines = log.with_name("audit.log.1").read_bytes() + log.read_bytes()
    assert muster("audit", "verify", "-", stdin=lines).code == 0
    assert muster("audit", "ls", "-", stdin=lines).out.count("\n") == 4


@pytest.mark.parametrize("action", [["ls"], ["show", "--seq", "1"], ["verify"]])
def test_a_log_that_cannot_be_read_is_named(muster, tmp_path, action):
    result = muster("audit", *action, tmp_path / "missing.log")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"muster: {tmp_path}/missing.log: cannot be read: No such file or directory\n"


def test_lines_that_are_no_records_are_counted_and_hide_nothing(muster, log):
    log.write_bytes(b"\xff\nhello\x1b[31m\n" + log.read_bytes() + b'{"torn')
    result = muster("audit", "ls", log)
    assert result.out.count("\n") == 4
    assert f"muster: 3 lines without a record, the first at {log}:1: " in result.err
    assert muster("audit", "verify", log).code == 1


def test_the_decisions_to_choose_from_are_those_of_the_log():
    assert (
        list(typing.get_args(record_schema.Decision))
        == commandline.table().commands["audit"].actions["ls"].arguments["--decision"]["choices"]
    )


def test_rules_and_words_in_reasons_are_filters_too(muster, write):
    change = {"op": "add", "path": "/spec", "field": "spec", "rule": "trl/launch", "reason": "Ranks must meet"}
    path = write("audit.log", chain.Chain().seal(record(1, changes=[change])))
    assert listed(muster, path, "--rule", "trl/*", "--text", "RANKS") == ["uid-1"]
    assert listed(muster, path, "--rule", "torch/*") == []
    assert listed(muster, path, "--text", "nothing like it") == []


def _interruptible():
    """A shell that starts the tests in the background has SIGINT ignored, and every process of them inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def started(*args, stdin=subprocess.DEVNULL):
    """Run `muster audit ARGS` in a process of its own, which is ended with the context."""
    command = [sys.executable, "-m", "muster", "audit", *map(str, args)]
    out = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdin=stdin,
        stdout=out,
        stderr=out,
        cwd=ROOT,
        text=True,
        preexec_fn=_interruptible,  # noqa: PLW1509  # it only sets what a signal does
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_log_is_followed_across_its_rotation(log):
    with started("ls", "--follow", log) as process:
        uids = [process.stdout.readline().split("uid=")[1].strip() for _ in range(4)]
        link = chain.Chain(4, "0" * 64)
        log.with_name("audit.log.1").rename(log.with_name("audit.log.2"))
        log.rename(log.with_name("audit.log.1"))
        log.write_bytes(link.seal(record(5)))
        uids.append(process.stdout.readline().split("uid=")[1].strip())
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert uids == ["uid-1", "uid-2", "uid-3  dry-run", "uid-4", "uid-5"]


def test_a_pipe_is_listed_as_it_comes_without_waiting_for_its_end():
    link = chain.Chain()
    with started("ls", "--follow", "-", stdin=subprocess.PIPE) as process:
        for number in (1, 2):
            process.stdin.write(link.seal(record(number)).decode())
            process.stdin.flush()
            assert f"uid=uid-{number}" in process.stdout.readline()
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize("action", [["ls"], ["ls", "-o", "json"], ["show", "-o", "json", "--uid", "uid-1"], ["verify"]])
def test_a_reader_that_closes_its_pipe_ends_the_command_quietly(write, action):
    link = chain.Chain()
    text = "".join(link.seal(record(1)).decode() for _ in range(3000))
    path = write("long.log", text.replace('"mode":"enforce"', '"mode":"off"') if action == ["verify"] else text)
    with started(*action, path) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == ""


def test_an_output_that_cannot_be_written_is_not_taken_for_the_log(log):
    command = [sys.executable, "-m", "muster", "audit", "ls", str(log)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=ROOT, text=True, check=False)
    assert (done.returncode, "cannot be read" in done.stderr) == (2, False)
    assert "No space left on device" in done.stderr


def test_a_log_that_is_not_there_cannot_be_followed(muster, tmp_path):
    result = muster("audit", "ls", "--follow", tmp_path / "missing.log")
    assert (result.code, result.err.split(": ")[1:3]) == (2, [f"{tmp_path}/missing.log", "cannot be read"])


def test_a_pipe_is_not_followed_together_with_files(muster, log):
    result = muster("audit", "ls", "--follow", "-", log)
    assert result.code == 2
    assert "run one command for each" in result.err


def test_pages_are_served_until_the_process_is_told_to_stop(log):
    with started("serve", "--port", "0", log) as process:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as answer:  # noqa: S310  # our own
            assert b"4 decisions" in answer.read()
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-"], "-: standard input cannot be served"),
        (["missing.log"], "missing.log: cannot be read: No such file or directory"),
        (["."], ".: is not a regular file"),
        (["--port", "70000", "LOG"], "--port: 70000 is not a TCP port"),
        (["--host", "192.0.2.1", "LOG"], "192.0.2.1:8099: muster cannot listen there"),
        (["--tls", ".", "LOG"], "--tls: is for --auth cluster; give that too"),
        (["--auth", "cluster", "--kubeconfig", "missing", "LOG"], "--auth cluster: there is no kubeconfig at missing"),
        (["logs/*/a.log", "LOG"], "a pattern stands for all logs that match it; give one pattern, or files"),
    ],
)
def test_what_cannot_be_served_is_said(muster, log, args, said, monkeypatch):
    monkeypatch.chdir(log.parent)
    result = muster("audit", "serve", *[str(log) if each == "LOG" else each for each in args])
    assert result.code == 2
    assert said in result.err


def test_with_a_gate_pages_are_served_by_tls_and_nobody_is_let_in_without_a_token(log):
    config = log.with_name("kubeconfig")
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    config.write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "x", "users": users})
    )
    pattern = f"{log.parent.parent}/*/{log.name}"
    with started("serve", "--port", "0", "--auth", "cluster", "--kubeconfig", config, pattern) as process:
        url = process.stdout.readline().strip()
        assert url.startswith("https://127.0.0.1:")
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(f"{url}healthz", context=trust) as answer:  # noqa: S310  # our own
            assert answer.read() == b"ok\n"
        for token, status in ((None, 401), ("unasked", 503)):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=trust)  # noqa: S310 - our own
            assert refusal.value.code == status
            refusal.value.close()
        process.terminate()
        assert process.wait(30) == 0


def test_elders_that_are_named_too_are_served_once(log):
    assert audit_serve._paths([str(log.with_name("audit.log.1")), str(log)]) == [log]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "node-1"])
def test_an_address_that_others_reach_is_told_from_this_machine(host):
    assert not audit_serve._is_loopback(host)
    assert audit_serve._is_loopback("127.0.0.1")
    assert audit_serve._is_loopback("::1")


HOSTILE = "\u202egpj.exe\x9b31m\u2066\x1b]0;x\x07"


@pytest.fixture
def hostile(write):
    """A log of a record in which every text is hostile to a terminal, and a line that is none."""
    link = chain.Chain()
    change = dict.fromkeys(("op", "path", "field", "before", "after", "rule", "reason"), HOSTILE)
    subject = {"kind": HOSTILE, "namespace": HOSTILE, "name": HOSTILE}
    line = link.seal(record(1, uid=HOSTILE, object=subject, user={"username": HOSTILE}, changes=[change]))
    return write("audit.log", (line + HOSTILE.encode() + b"\n").decode())


@pytest.mark.parametrize(
    "action",
    [["ls"], ["ls", "-o", "json"], ["show", "--seq", "1"], ["show", "--seq", "1", "-o", "json"], ["verify"]],
    ids=" ".join,
)
def test_what_a_record_says_does_not_move_the_cursor_or_turn_the_text(muster, hostile, action):
    result = muster("audit", *action, hostile)
    assert result.out
    assert all(each.isprintable() or each == "\n" for each in result.out + result.err)


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_records_are_shown_one_at_a_time(write, output, monkeypatch):
    link = chain.Chain()
    path = write("audit.log", b"".join(link.seal(record(1, uid="same")) for _ in range(50)).decode())
    read, shown = [], []
    parse = chain.parse
    monkeypatch.setattr(chain, "parse", lambda data: read.append(1) or parse(data))
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys.stdout, "write", lambda text: shown.append((len(read), text)))
    assert main.main(["audit", "show", "-o", output, "--uid", "same", str(path)]) == 0
    assert {number for number, text in shown if '"same"' in text or "uid: same" in text} == {*range(1, 51)}
    whole = "".join(text for _, text in shown)
    found = list(kubeyaml.load_all(whole)) if output == "yaml" else json.loads(whole)
    assert len(found) == 50


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_deepest_record_that_can_be_written_is_shown(muster, write, output):
    deep = json.loads("[" * 251 + "]" * 251)
    change = {**dict.fromkeys(("op", "path", "field", "rule", "reason"), "a"), "after": deep}
    path = write("audit.log", chain.Chain().seal(record(1, changes=[change])).decode())
    shown = muster("audit", "show", "-o", output, "--seq", "1", path)
    assert (shown.code, shown.out.count("- ") + shown.out.count("[") > 250) == (0, True)


@pytest.mark.parametrize("action", [["ls"], ["ls", "--follow"], ["show", "--seq", "1"], ["verify"], ["serve"]])
def test_a_pipe_that_stands_where_the_log_should_be_is_said_and_not_waited_for(muster, tmp_path, action):
    os.mkfifo(tmp_path / "audit.log")
    result = muster("audit", *action, tmp_path / "audit.log")
    assert result.code == 2
    assert "not a regular file" in result.err


def test_what_a_shell_opens_for_the_command_is_read_like_stdin(log):
    command = ["bash", "-c", f'"{sys.executable}" -m muster audit verify <(cat "{log}.1" "{log}")']
    done = subprocess.run(command, capture_output=True, cwd=ROOT, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "the chain is intact")
