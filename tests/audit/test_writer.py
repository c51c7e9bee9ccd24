from __future__ import annotations

import asyncio
import collections
import io
import threading
from functools import partial
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.audit import log_files, record_schema, sinks, verification, writer
from muster.backoffs import Backoff

PATIENCE = 10.0  # seconds that no passing test waits for
SOON = partial(Backoff, base=0.002, cap=0.004)
NEVER = partial(Backoff, base=9999.0, cap=9999.0, least=0.5)


@pytest.fixture
def drops():
    return collections.Counter()


@pytest.fixture
def open_writer(drops):
    opened = []

    def make(*lanes_to, **options):
        options = {"linger": 0.0, "backoff": NEVER, "on_drop": lambda reason, n: drops.update({reason: n}), **options}
        opened.append(writer.AuditWriter(lanes_to, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close(PATIENCE)


@pytest.fixture
def stuck(new_sink):
    """A sink that hangs in `write` until `released`; `entered` tells that it does."""
    sink = new_sink("stuck")
    sink.entered, sink.released, plain = threading.Event(), threading.Event(), sink.write

    def write(line):
        sink.entered.set()
        assert sink.released.wait(PATIENCE)
        plain(line)

    sink.write = write
    yield sink
    sink.released.set()


def submit(audit, make_record, *uids):
    return [audit.submit(make_record(uid=uid)) for uid in uids]


def told(lines):
    records = list(map(orjson.loads, lines))
    return [(record_schema.event_name(each) or each["uid"], each.get("dropped", 0)) for each in records]


def uids(lines):
    return "".join(uid for uid, _ in told(lines))


def turned(audit, *, healthy):
    """Wait, without records, until the writer finds its primary well or failing."""
    pause = threading.Event()
    return any(audit.healthy is healthy or pause.wait(0.005) for _ in range(2000))


def test_each_record_goes_to_every_sink_as_a_chain_of_its_own(open_writer, new_sink, make_record):
    first, second = new_sink(), new_sink()
    audit = open_writer(first, second)
    assert submit(audit, make_record, "a", "b", "c") == [True] * 3
    assert audit.flush(PATIENCE)
    for sink in (first, second):
        assert uids(sink.lines) == "abc"
        assert list(verification.verify(log_files.numbered(io.BytesIO(b"".join(sink.lines)), "x"))) == []


@settings(deadline=None)
@given(fates=st.lists(st.sampled_from(["well", "full", "bad"]), max_size=15))
def test_each_record_is_written_once_somewhere_or_counted(make_record, new_sink, fates):
    drops, primary, fallback = collections.Counter(), new_sink(), new_sink()
    audit = writer.AuditWriter(
        [primary], fallback=fallback, backoff=NEVER, linger=0.0, on_drop=lambda reason, n: drops.update({reason: n})
    )
    for number, fate in enumerate(fates):
        primary.error = OSError("full") if fate == "full" else None
        audit.submit(make_record(uid=str(number), **({"changes": [object()]} if fate == "bad" else {})))
        assert audit.flush(PATIENCE)
    primary.error = OSError("full")
    audit.close(PATIENCE)
    written = [uid for uid, _ in told(primary.lines) + told(fallback.lines)]
    assert len(written) == len(set(written))
    assert len(written) + sum(drops.values()) == len(fates)


def test_a_slow_sink_does_not_hold_up_submit(open_writer, stuck, make_record):
    audit = open_writer(stuck)
    submit(audit, make_record, *"abc")
    assert stuck.entered.wait(PATIENCE)
    assert submit(audit, make_record, *"def") == [True] * 3
    assert not audit.flush(0.01)
    stuck.released.set()
    assert audit.flush(PATIENCE)
    assert uids(stuck.lines) == "abcdef"


@pytest.mark.parametrize(("on_failure", "goes_on"), [("fallback", True), ("deny", False)])
def test_a_full_queue_drops_counts_and_tells_the_loss(open_writer, stuck, make_record, drops, on_failure, goes_on):
    audit = open_writer(stuck, queue_size=2, on_failure=on_failure)
    submit(audit, make_record, "a")
    assert stuck.entered.wait(PATIENCE)
    assert submit(audit, make_record, *"bcde") == [True, True, goes_on, goes_on]
    stuck.released.set()
    audit.flush(PATIENCE)
    submit(audit, make_record, "f", "g")
    audit.flush(PATIENCE)
    assert told(stuck.lines) == [("a", 0), ("b", 0), ("c", 0), ("f", 2), ("g", 0)]
    assert drops == {"full": 2}


def test_records_that_wait_are_bounded_by_their_memory_too(open_writer, stuck, make_record, drops):
    audit = open_writer(stuck, queue_bytes=100_000)
    submit(audit, make_record, "a")
    assert stuck.entered.wait(PATIENCE)
    taken = [audit.submit(make_record(uid="b", message="x" * 10_000)) for _ in range(60)]
    assert taken == [True] * 60  # with `fallback`, a loss is counted and the admission goes on
    assert 60 - writer._SHORT_QUEUE - 10 <= drops["full"] < 60
    stuck.released.set()
    assert audit.flush(PATIENCE)
    assert len(stuck.lines) == 61 - drops["full"]
    for _ in range(3):  # the memory is free again
        submit(audit, make_record, *"c" * 20)
        assert audit.flush(PATIENCE)
    assert told(stuck.lines)[-60] == ("c", drops["full"])


def test_with_deny_a_queue_that_takes_too_much_memory_refuses(open_writer, stuck, make_record):
    audit = open_writer(stuck, queue_bytes=1000, on_failure="deny")
    submit(audit, make_record, "a")
    assert stuck.entered.wait(PATIENCE)
    submit(audit, make_record, *"b" * writer._SHORT_QUEUE)
    assert audit.submit(make_record(message="x" * 2000)) is False


def test_while_the_primary_fails_records_go_to_the_fallback(open_writer, new_sink, make_record, drops):
    primary, fallback = new_sink(), new_sink()
    audit = open_writer(primary, fallback=fallback)
    submit(audit, make_record, "a")
    audit.flush(PATIENCE)
    primary.error = OSError("full")
    assert submit(audit, make_record, "b", "c") == [True, True]
    audit.flush(PATIENCE)
    assert (uids(primary.lines), uids(fallback.lines)) == ("a", "bc")
    assert not audit.healthy
    assert drops == {}


def test_the_primary_is_found_well_again_without_a_record_and_tells_its_gap(open_writer, new_sink, make_record):
    primary, fallback = new_sink(), new_sink()
    primary.error = OSError("full")
    audit = open_writer(primary, fallback=fallback, backoff=partial(Backoff, base=0.1, cap=0.1))
    submit(audit, make_record, "a", "b", "c")
    audit.flush(PATIENCE)
    primary.error = None
    assert turned(audit, healthy=True)
    submit(audit, make_record, "d")
    audit.flush(PATIENCE)
    assert told(primary.lines) == [("a", 0), ("d", 2)]
    assert uids(fallback.lines) == "abc"


def test_a_second_sink_that_works_needs_no_fallback(open_writer, new_sink, make_record):
    primary, second, fallback = new_sink(), new_sink(), new_sink()
    primary.error = OSError("full")
    audit = open_writer(primary, second, fallback=fallback)
    submit(audit, make_record, "a")
    audit.flush(PATIENCE)
    assert (uids(second.lines), fallback.lines) == ("a", [])


def test_the_failure_of_a_second_sink_leaves_the_writer_healthy(open_writer, new_sink, make_record):
    primary, second = new_sink(), new_sink()
    second.error = OSError("broken pipe")
    audit = open_writer(primary, second)
    submit(audit, make_record, "a")
    audit.flush(PATIENCE)
    assert (audit.healthy, uids(primary.lines)) == (True, "a")


def test_a_record_that_no_sink_takes_is_counted(open_writer, new_sink, make_record, drops):
    primary, fallback = new_sink(), new_sink()
    primary.error = fallback.error = OSError("full")
    errors = []
    audit = open_writer(primary, fallback=fallback, on_error=lambda name, error: errors.append(f"{name}: {error}"))
    submit(audit, make_record, "a", "b")
    audit.flush(PATIENCE)
    assert drops == {"unwritten": 2}
    assert errors == ["memory: full", "memory: full"]


def test_with_deny_submit_says_no_until_the_primary_is_well_and_keeps_what_it_took(
    open_writer, new_sink, make_record, drops
):
    primary, fallback = new_sink(), new_sink()
    primary.error = OSError("full")
    audit = open_writer(primary, fallback=fallback, on_failure="deny", backoff=SOON)
    submit(audit, make_record, "a")
    assert turned(audit, healthy=False)
    assert submit(audit, make_record, "b", "c") == [False, False]
    primary.error = None
    assert turned(audit, healthy=True)
    assert submit(audit, make_record, "d") == [True]
    audit.flush(PATIENCE)
    assert told(primary.lines) == [("a", 0), ("d", 2)]
    assert drops == {"refused": 2}


def test_with_deny_records_taken_before_the_failure_wait_for_the_primary(open_writer, stuck, new_sink, make_record):
    fallback = new_sink()
    audit = open_writer(stuck, fallback=fallback, on_failure="deny", backoff=SOON)
    submit(audit, make_record, *"abc")
    assert stuck.entered.wait(PATIENCE)
    stuck.error = OSError("full")
    stuck.released.set()
    assert not audit.flush(0.02)
    stuck.error = None
    assert audit.flush(PATIENCE)
    assert uids(stuck.lines) == "abc"
    assert uids(fallback.lines) == "a"


def test_with_deny_records_that_still_wait_at_the_end_go_to_the_fallback(
    open_writer, stuck, new_sink, make_record, drops
):
    fallback = new_sink()
    audit = open_writer(stuck, fallback=fallback, on_failure="deny")
    submit(audit, make_record, *"abc")
    assert stuck.entered.wait(PATIENCE)
    stuck.error = OSError("full")
    stuck.released.set()
    assert audit.close(PATIENCE)
    assert (uids(fallback.lines), drops) == ("abc", {})


def test_a_record_that_cannot_be_written_is_lost_alone(open_writer, new_sink, make_record, drops):
    sink = new_sink()
    audit = open_writer(sink)
    submit(audit, make_record, "a")
    audit.submit(None)
    submit(audit, make_record, "c")
    audit.flush(PATIENCE)
    assert told(sink.lines) == [("a", 0), ("c", 1)]
    assert (drops, audit.healthy) == ({"invalid": 1}, True)


def test_close_writes_what_waits_and_closes_the_sinks(open_writer, new_sink, make_record):
    sink = new_sink()
    audit = open_writer(sink, linger=0.1)
    submit(audit, make_record, *"abcdef")
    assert audit.close(PATIENCE)
    assert (uids(sink.lines), sink.closed) == ("abcdef", True)
    assert audit.flush(0)


def test_close_gives_up_on_a_hanging_sink_and_counts_what_it_leaves(open_writer, stuck, make_record, drops):
    audit = open_writer(stuck)
    submit(audit, make_record, *"abc")
    assert stuck.entered.wait(PATIENCE)
    assert not audit.close(0.01)
    assert drops == {"closed": 2}
    stuck.released.set()
    assert audit.close(PATIENCE)
    assert uids(stuck.lines) == "a"


def test_after_close_records_are_refused_and_counted(open_writer, new_sink, make_record, drops):
    audit = open_writer(new_sink(), on_failure="deny")
    audit.close(PATIENCE)
    assert submit(audit, make_record, "a") == [False]
    assert drops == {"closed": 1}


def test_a_restarted_process_continues_the_chain_of_its_file(open_writer, log, make_record):
    for each in ("ab", "cd"):
        audit = open_writer(sinks.RotatingFileSink(log, max_bytes=1500))
        submit(audit, make_record, *each)
        assert audit.close(PATIENCE)
    lines = list(log_files.lines(log_files.rotated(log)))
    names = [name for name, _ in told(line.data for line in lines)]
    assert names == ["a", "b", "log_stopped", "log_started", "c", "d", "log_stopped"]
    assert orjson.loads(lines[3].data)["event"]["details"] == {"status": "clean"}
    assert list(verification.verify(lines)) == []


def test_a_process_that_was_killed_in_the_middle_of_a_line_is_continued(open_writer, log, sealed, make_record):
    log.write_bytes(b"".join(sealed(3)) + b'{"changes":[')
    audit = open_writer(sinks.RotatingFileSink(log))
    submit(audit, make_record, "a")
    audit.close(PATIENCE)
    assert [(each.line, each.kind) for each in verification.verify(log_files.lines([log]))] == [
        (4, "torn"),
        (5, "unclean"),
    ]


def test_a_really_full_device_does_not_stop_admission(open_writer, log, new_sink, make_record):
    fallback = new_sink()
    log.symlink_to(Path("/dev/full"))
    audit = open_writer(sinks.RotatingFileSink(log), fallback=fallback, backoff=partial(Backoff, base=0.1, cap=0.1))
    assert submit(audit, make_record, "a", "b") == [True, True]
    assert audit.flush(PATIENCE)
    assert (audit.healthy, uids(fallback.lines)) == (False, "ab")
    log.unlink()
    assert turned(audit, healthy=True)
    submit(audit, make_record, "c")
    audit.close(PATIENCE)
    assert told(log.read_bytes().splitlines()) == [("a", 0), ("c", 1), ("log_stopped", 0)]


def test_a_second_process_writes_elsewhere_until_the_first_is_gone(open_writer, log, new_sink, make_record):
    fallback = new_sink()
    first = open_writer(sinks.RotatingFileSink(log))
    submit(first, make_record, "a")
    first.flush(PATIENCE)
    second = open_writer(sinks.RotatingFileSink(log), fallback=fallback, backoff=SOON)
    submit(second, make_record, "b")
    second.flush(PATIENCE)
    assert (second.healthy, uids(fallback.lines)) == (False, "b")
    first.close(PATIENCE)
    assert turned(second, healthy=True)
    assert told(log.read_bytes().splitlines()) == [("a", 0), ("log_stopped", 0), ("log_started", 0), ("b", 0)]
    assert list(verification.verify(log_files.lines([log]))) == []


def test_stdout_is_the_fallback_unless_it_is_a_sink(open_writer, new_sink, make_record, capfd):
    failing = new_sink()
    failing.error = OSError("full")
    for others in ((), (sinks.StreamSink(),)):
        audit = open_writer(failing, *others)
        submit(audit, make_record, "a")
        audit.flush(PATIENCE)
        assert told(capfd.readouterr().out.splitlines()) == [("a", 0)]


async def test_records_may_be_submitted_from_an_event_loop_and_from_threads(open_writer, new_sink, make_record):
    sink = new_sink()
    audit = open_writer(sink)
    await asyncio.gather(*(asyncio.to_thread(submit, audit, make_record, *"abcde") for _ in range(4)))
    assert await asyncio.to_thread(audit.flush, PATIENCE)
    assert collections.Counter(uids(sink.lines)) == dict.fromkeys("abcde", 4)


def test_a_writer_without_sinks_is_refused():
    with pytest.raises(ValueError, match="needs at least one sink"):
        writer.AuditWriter([])


def test_the_thread_is_gone_after_close(open_writer, new_sink):
    audit = open_writer(new_sink())
    audit.close(PATIENCE)
    assert not [thread for thread in threading.enumerate() if thread.name == "audit-writer"]
