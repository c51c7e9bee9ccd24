from __future__ import annotations

import datetime
import io

import pytest

from muster.audit import chain, log_files, queries

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def entries(make_record, make_change, make_finding):
    link = chain.Chain()
    jobset = {"kind": "JobSet", "namespace": "team-b", "name": "sft-node"}
    owner = {"kind": "TrainJob", "name": "sft", "uid": "1"}
    generated = {"kind": "TrainJob", "namespace": "team-a", "name": "", "generateName": "sweep-"}
    kept = [
        make_record(uid="a", time="2026-03-01T10:00:00.000000Z"),
        make_record(uid="b", time="2026-03-01T11:00:00.000000Z", object=jobset, owner=owner, framework=None),
        make_record(
            uid="c",
            time="2026-03-01T11:30:00.000000Z",
            object=generated,
            user={"username": "bob"},
            decision="denied",
            changes=[make_change(reason="Ranks meet at the coordinator")],
            findings=[make_finding("spec.trainer.args", "--lr", "misspelt flag")],
        ),
    ]
    lines = [link.seal(record) for record in kept]
    return list(queries.parsed(log_files.numbered(io.BytesIO(b"".join([*lines, b"no record\n"])), "audit.log")))


def chosen(entries, **questions):
    return "".join(entry.record["uid"] for entry in queries.select(entries, queries.Questions(**questions)))


@pytest.mark.parametrize(
    ("questions", "uids"),
    [
        ({}, "abc"),
        ({"job": "sft"}, "ab"),
        ({"job": "sft-node"}, "b"),
        ({"job": "sweep-"}, "c"),
        ({"job": "s*"}, "abc"),
        ({"job": "sf"}, ""),
        ({"namespace": "team-a"}, "ac"),
        ({"user": "bob"}, "c"),
        ({"user": "BOB"}, ""),
        ({"decision": "denied"}, "c"),
        ({"framework": "trl"}, "ac"),
        ({"framework": "?*"}, "ac"),
        ({"kind": "jobset"}, "b"),
        ({"uid": "b"}, "b"),
        ({"rule": "trl/launch"}, "c"),
        ({"rule": "trl/e*"}, "c"),
        ({"rule": "torch/*"}, ""),
        ({"text": "ranks MEET"}, "c"),
        ({"text": "MISSPELT"}, "c"),
        ({"text": "trainer.args"}, "c"),
        ({"text": "nowhere"}, ""),
        ({"since": NOW - datetime.timedelta(hours=1)}, "bc"),
        ({"until": NOW - datetime.timedelta(hours=1)}, "a"),
        ({"job": "sft", "kind": "TrainJob"}, "a"),
        ({"namespace": "team-a", "decision": "denied", "user": "alice"}, ""),
    ],
)
def test_records_are_chosen_that_answer_all_questions(entries, questions, uids):
    assert chosen(entries, **questions) == uids


def test_a_time_that_never_was_is_within_no_bounds(make_record):
    line = chain.Chain().seal(make_record(uid="x", time="2026-02-31T00:00:00.000000Z"))
    entries = list(queries.parsed(log_files.numbered(io.BytesIO(line), "audit.log")))
    assert chosen(entries) == "x"
    assert chosen(entries, since=NOW - datetime.timedelta(days=9999)) == ""


def test_bad_lines_are_entries_with_a_problem(log, sealed):
    first, second = sealed(2)
    log.write_bytes(first + b"Traceback\n" + b'{"torn\n' + b'{"level":"info"}\n' + second)
    read = [(entry.line, entry.record is not None, entry.problem) for entry in queries.read([log])]
    assert [line for line, good, _ in read if good] == [1, 5]
    assert read[1][2] == "not an audit record: it is not JSON"
    assert read[2][2] == "an incomplete record"
    assert read[3][2].startswith("not a record of muster.dev/audit/v1: ")


def test_files_are_read_in_the_order_given(log, sealed):
    first, second = sealed(2)
    elder = log.with_name("audit.log.1")
    elder.write_bytes(first)
    log.write_bytes(second)
    read = [(entry.file, entry.record["seq"]) for entry in queries.read(log_files.rotated(log))]
    assert read == [(str(elder), 1), (str(log), 2)]


def test_reading_is_lazy(sealed):
    class Endless:
        def readline(self, size):
            return sealed(1)[0][:size]

    assert next(queries.parsed(log_files.numbered(Endless(), "stdin"))).record is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", NOW - datetime.timedelta(seconds=30)),
        ("15m", NOW - datetime.timedelta(minutes=15)),
        ("2h", NOW - datetime.timedelta(hours=2)),
        (" 1d ", NOW - datetime.timedelta(days=1)),
        ("2w", NOW - datetime.timedelta(weeks=2)),
        ("2026-03-01T12:00:00Z", NOW),
        ("2026-03-01T13:00:00.000+01:00", NOW),
        ("2026-03-01 12:00Z", NOW),
    ],
)
def test_a_moment_is_absolute_or_counted_back_from_now(text, expected):
    assert queries.moment(text, NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "15", "m", "-1h", "1.5h", "2026-03-01", "2026-03-01T12:00:00", "999999999w"]
)
def test_what_is_no_moment_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"is not a time; write one like 2026-03-01T08:00:00Z, or 15m"):
        queries.moment(text, NOW)
