from __future__ import annotations

import io
import logging
import random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.audit import chain, log_files, sink_worker, sinks, verification
from muster.backoffs import Backoff


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Unsteady:
    """A sink that does what `outcome` says: write, fail, fail after it has written all, or half."""

    name = "unsteady"
    is_kept = False

    def __init__(self, memory):
        self.lines, self.outcome = memory.lines, "well"

    def write(self, line):
        if self.outcome in {"well", "fails late"}:
            self.lines.append(line)
        elif self.outcome == "torn":
            self.lines.append(line[: len(line) // 2])
        if self.outcome != "well":
            raise OSError(self.outcome)

    def damage(self):
        return ""

    def last_lines(self):
        return reversed(self.lines)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sink(new_sink):
    return new_sink()


@pytest.fixture
def errors():
    return []


@pytest.fixture
def lane(sink, clock, errors):
    backoff = Backoff(random.Random(1), base=1.0, cap=8.0, least=0.5)  # noqa: S311  # repeatable jitter
    return sink_worker.SinkWorker(sink, backoff, lambda name, error: errors.append((name, str(error))), clock)


def told(sink):
    return [(record["uid"], record.get("dropped", 0)) for record in map(orjson.loads, sink.lines)]


def problems(sink):
    return list(
        verification.verify(
            log_files.numbered(io.BytesIO(b"".join(each.rstrip(b"\n") + b"\n" for each in sink.lines)), "memory")
        )
    )


def write(lane, make_record, *uids):
    return [lane.write(make_record(uid=uid)) for uid in uids]


def test_records_become_one_chain(lane, sink, make_record):
    assert write(lane, make_record, "a", "b") == [True, True]
    assert told(sink) == [("a", 0), ("b", 0)]
    assert problems(sink) == []


def test_the_chain_of_an_earlier_process_is_continued(lane, sink, make_record, sealed):
    sink.lines += sealed(3)
    write(lane, make_record, "a")
    assert orjson.loads(sink.lines[-1])["seq"] == 4
    assert problems(sink) == []


def test_torn_and_foreign_lines_at_the_end_are_stepped_over(lane, sink, make_record, sealed):
    sink.lines += [*sealed(3), b'{"torn', b"foreign"]
    write(lane, make_record, "a")
    assert [problem.kind for problem in problems(sink)] == ["torn", "foreign"]


def test_the_first_record_that_fails_is_kept_and_those_after_it_are_counted(lane, sink, clock, make_record):
    write(lane, make_record, "a")
    sink.error = OSError("full")
    assert write(lane, make_record, "b", "c", "d") == [False, False, False]
    sink.error = None
    clock.now += 10
    assert write(lane, make_record, "e", "f") == [True, True]
    assert told(sink) == [("a", 0), ("b", 0), ("e", 2), ("f", 0)]
    assert problems(sink) == []


def test_a_failing_sink_is_left_alone_until_the_next_attempt_is_due(lane, sink, clock, make_record):
    sink.error = OSError("full")
    write(lane, make_record, "a", "b", "c")
    assert sink.attempts == 1
    clock.now += 1
    write(lane, make_record, "d", "e")
    assert sink.attempts == 2


def test_a_sink_that_is_well_again_is_found_without_new_records(lane, sink, clock, make_record):
    sink.error = OSError("full")
    write(lane, make_record, "a")
    assert lane.failing
    assert 0.5 <= lane.wait <= 1.0
    sink.error = None
    clock.now += 1
    assert lane.retry()
    assert (lane.failing, lane.wait, told(sink)) == (False, None, [("a", 0)])


def test_losses_before_and_behind_the_kept_record_are_told_apart(lane, sink, clock, make_record):
    sink.error = OSError("full")
    lane.miss(5)
    write(lane, make_record, "a", "b")
    clock.now += 9
    write(lane, make_record, "c")
    sink.error = None
    clock.now += 9
    write(lane, make_record, "d")
    assert told(sink) == [("a", 5), ("d", 2)]


def test_every_error_is_reported_but_only_changes_are_logged(lane, sink, clock, errors, make_record, caplog):
    caplog.set_level(logging.INFO)
    sink.error = OSError("full")
    for uid in "abc":
        write(lane, make_record, uid)
        clock.now += 9
    sink.error = None
    write(lane, make_record, "d")
    assert errors == [("memory", "full")] * 3
    assert [record.message for record in caplog.records] == ["audit sink fails", "audit sink works again"]


def test_whatever_a_sink_raises_is_an_error_of_that_sink(lane, sink, make_record):
    sink.error = RuntimeError("bug")
    assert write(lane, make_record, "a") == [False]


def test_a_record_that_json_cannot_hold_is_no_error_of_the_sink(lane, sink, make_record):
    with pytest.raises(TypeError):
        lane.write(make_record(changes=[object()]))
    assert not lane.failing
    write(lane, make_record, "a")
    assert problems(sink) == []


def test_a_last_line_that_cannot_be_hashed_does_not_keep_the_chain_from_going_on(lane, sink, make_record):
    deep = b"[" * 300 + b"]" * 300
    zeros = b"0" * 64
    sink.lines.append(b'{"seq":1,"prev":"' + zeros + b'","hash":"' + zeros + b'","x":' + deep + b"}\n")
    assert write(lane, make_record, "a") == [True]
    assert not lane.failing


def test_after_an_error_the_chain_is_taken_from_what_is_really_there(lane, sink, clock, make_record, monkeypatch):
    def written_but_failed(line):
        sink.lines.append(line)
        raise OSError("late")

    write(lane, make_record, "a")
    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", written_but_failed)
        write(lane, make_record, "b")
    clock.now += 9
    write(lane, make_record, "c")
    assert told(sink) == [("a", 0), ("b", 0), ("b", 0), ("c", 0)]
    assert problems(sink) == []


def test_a_sink_that_cannot_be_read_back_goes_on_where_it_was(lane, sink, clock, make_record, monkeypatch):
    monkeypatch.setattr(sink, "last_lines", lambda: iter(()))
    write(lane, make_record, "a", "b")
    sink.error = OSError("closed")
    write(lane, make_record, "c")
    sink.error = None
    clock.now += 9
    write(lane, make_record, "d")
    assert problems(sink) == []
    assert len(sink.lines) == 4


def test_lines_cut_off_while_the_process_runs_leave_a_gap_that_can_be_seen(lane, sink, clock, make_record):
    write(lane, make_record, "a", "b", "c")
    sink.error = OSError("gone")
    write(lane, make_record, "d")
    del sink.lines[1:]
    sink.error = None
    clock.now += 9
    write(lane, make_record, "e")
    assert [problem.kind for problem in problems(sink)] == ["removed"]


OUTCOMES = st.sampled_from(["well", "fails", "fails late", "torn"])


@settings(deadline=None)
@given(steps=st.lists(st.tuples(OUTCOMES, st.booleans(), st.integers(0, 2)), max_size=30))
def test_whatever_fails_the_chain_holds_and_every_record_is_there_or_counted(new_sink, make_record, steps):
    clock, sink = Clock(), Unsteady(new_sink())
    lane = sink_worker.SinkWorker(sink, Backoff(base=1.0, cap=1.0, least=0.5), lambda _name, _error: None, clock)
    given_to_it = 0
    for sink.outcome, time_passes, missed in steps:
        clock.now += 2 * time_passes
        lane.miss(missed)
        write(lane, make_record, str(given_to_it))
        given_to_it += missed + 1
    sink.outcome = "well"
    clock.now += 2
    write(lane, make_record, "last")
    whole = [line for line in sink.lines if line.endswith(b"\n")]
    records = {record["uid"]: record.get("dropped", 0) for record in map(orjson.loads, whole)}
    assert len(records) + sum(records.values()) == given_to_it + 1
    assert {problem.kind for problem in problems(sink)} <= {"torn"}


@settings(deadline=None)
@given(cut=st.integers(1, 5000))
def test_after_a_crash_at_any_byte_the_chain_goes_on(tmp_path_factory, make_record, sealed, cut):
    path = tmp_path_factory.mktemp("crash") / "audit.log"
    whole = b"".join(sealed(5))
    path.write_bytes(whole[: max(len(whole) - cut, 0)])
    sink = sinks.RotatingFileSink(path)
    lane = sink_worker.SinkWorker(sink, Backoff(base=0.5), lambda _name, _error: None)
    assert write(lane, make_record, "a", "b") == [True, True]
    lane.close()
    assert [each.kind for each in verification.verify(log_files.lines([path])) if each.is_fault] in ([], ["torn"])


def test_at_the_end_the_kept_record_is_tried_once_more(lane, sink, make_record):
    sink.error = OSError("full")
    write(lane, make_record, "a")
    sink.error = None
    lane.close()
    assert (told(sink), sink.closed) == ([("a", 0)], True)


def test_a_sink_that_cannot_be_closed_is_reported(lane, sink, errors, monkeypatch):
    monkeypatch.setattr(sink, "close", lambda: (_ for _ in ()).throw(OSError("stale")))
    lane.close()
    assert errors == [("memory", "stale")]


def test_a_chain_that_begins_begins_at_genesis(lane, sink, make_record):
    write(lane, make_record, "a")
    assert orjson.loads(sink.lines[0])["prev"] == chain.GENESIS
