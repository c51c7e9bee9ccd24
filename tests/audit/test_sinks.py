from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from muster.audit import chain, log_files, sinks, verification

FULL = Path("/dev/full")


@pytest.fixture
def open_sink():
    opened = []

    def make(path, **options):
        opened.append(sinks.RotatingFileSink(path, **options))
        return opened[-1]

    yield make
    for sink in opened:
        sink.close()


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def writes(monkeypatch):
    """Let `os.write` do as told, one item for each call: write so many bytes, or raise; then as ever."""
    plan = []
    real = os.write

    def write(descriptor, data):
        step = plan.pop(0) if plan else len(data)
        if isinstance(step, Exception):
            raise step
        return real(descriptor, bytes(data[:step]))

    monkeypatch.setattr(os, "write", write)
    return plan


def no_space():
    return OSError(errno.ENOSPC, "No space left on device")


def test_a_stream_gets_whole_lines_at_once(pipe):
    sinks.StreamSink(pipe[1]).write(b"one\n")
    assert os.read(pipe[0], 100) == b"one\n"


def test_a_stream_that_takes_little_at_a_time_gets_all(pipe, writes):
    writes += [1, 2]
    sinks.StreamSink(pipe[1]).write(b"a long line\n")
    assert os.read(pipe[0], 100) == b"a long line\n"


def test_a_line_torn_on_a_stream_is_ended_before_the_next(pipe, writes):
    sink = sinks.StreamSink(pipe[1])
    writes += [3, no_space()]
    with pytest.raises(OSError, match="No space"):
        sink.write(b"one\n")
    sink.write(b"two\n")
    assert os.read(pipe[0], 100) == b"one\ntwo\n"


def test_a_stream_has_nothing_to_resume_from_and_stays_open(pipe):
    sink = sinks.StreamSink(pipe[1])
    sink.close()
    sink.write(b"x\n")
    assert list(sink.last_lines()) == []


def test_a_new_file_is_for_its_owner_only(open_sink, log):
    open_sink(log).write(b"one\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_an_existing_file_is_continued(open_sink, log):
    log.write_bytes(b"one\n")
    open_sink(log).write(b"two\n")
    assert log.read_bytes() == b"one\ntwo\n"


def test_a_line_torn_by_a_crash_is_ended_so_that_the_next_is_whole(open_sink, log):
    log.write_bytes(b'one\n{"seq":')
    open_sink(log).write(b"two\n")
    assert log.read_bytes() == b'one\n{"seq":\ntwo\n'


def test_a_file_that_would_grow_too_large_becomes_the_first_elder(open_sink, log):
    sink = open_sink(log, max_bytes=8, backups=2)
    for line in (b"aaa\n", b"bbb\n", b"ccc\n", b"ddd\n", b"eee\n"):
        sink.write(line)
    contents = {path.name: path.read_bytes() for path in log_files.rotated(log)}
    assert contents == {"audit.log.2": b"aaa\nbbb\n", "audit.log.1": b"ccc\nddd\n", "audit.log": b"eee\n"}


def test_the_oldest_file_is_deleted_when_there_are_enough(open_sink, log):
    sink = open_sink(log, max_bytes=1, backups=2)
    for line in (b"a\n", b"b\n", b"c\n", b"d\n"):
        sink.write(line)
    assert [path.read_bytes() for path in log_files.rotated(log)] == [b"b\n", b"c\n", b"d\n"]


def test_one_elder_is_enough(open_sink, log):
    sink = open_sink(log, max_bytes=1, backups=1)
    for line in (b"a\n", b"b\n", b"c\n"):
        sink.write(line)
    assert [path.read_bytes() for path in log_files.rotated(log)] == [b"b\n", b"c\n"]


def test_elders_beyond_a_lowered_number_are_deleted(open_sink, log):
    for number in (1, 2, 3, 7):
        log.with_name(f"audit.log.{number}").write_bytes(b"old\n")
    log.write_bytes(b"full\n")
    open_sink(log, max_bytes=1, backups=2).write(b"new\n")
    assert [path.name for path in log_files.rotated(log)] == ["audit.log.2", "audit.log.1", "audit.log"]


def test_a_line_larger_than_a_file_may_be_gets_a_file_of_its_own(open_sink, log):
    sink = open_sink(log, max_bytes=4)
    sink.write(b"much too long\n")
    sink.write(b"x\n")
    assert log.with_name("audit.log.1").read_bytes() == b"much too long\n"


def test_the_chain_goes_on_over_a_rotation(open_sink, log, sealed):
    sink = open_sink(log, max_bytes=2000)
    for line in sealed(9):
        sink.write(line)
    assert len(log_files.rotated(log)) > 2
    assert list(verification.verify(log_files.lines(log_files.rotated(log)))) == []


def test_last_lines_reach_beyond_a_rotation(open_sink, log):
    sink = open_sink(log, max_bytes=1)
    sink.write(b"one\n")
    sink.write(b"two\n")
    log.write_bytes(b"")
    assert list(sink.last_lines()) == [b"one"]


def test_a_file_taken_away_is_made_anew(open_sink, log):
    sink = open_sink(log)
    sink.write(b"one\n")
    log.rename(log.with_name("elsewhere"))
    sink.write(b"two\n")
    assert log.read_bytes() == b"two\n"


def test_a_file_that_another_took_the_place_of_is_left_for_that_one(open_sink, log):
    sink = open_sink(log)
    sink.write(b"one\n")
    log.rename(log.with_name("elsewhere"))
    log.write_bytes(b"new\n")
    sink.write(b"two\n")
    assert log.read_bytes() == b"new\ntwo\n"


def test_a_file_that_was_emptied_is_appended_to_and_not_left_with_a_hole(open_sink, log):
    sink = open_sink(log)
    sink.write(b"one\n")
    os.truncate(log, 0)
    sink.write(b"two\n")
    assert log.read_bytes() == b"two\n"


def test_a_line_that_a_full_disk_cuts_short_leaves_no_trace(open_sink, log, writes):
    sink = open_sink(log)
    sink.write(b"one\n")
    writes += [2, no_space()]
    with pytest.raises(OSError, match="No space"):
        sink.write(b"two\n")
    assert log.read_bytes() == b"one\n"
    sink.write(b"three\n")
    assert log.read_bytes() == b"one\nthree\n"


def test_a_disk_that_takes_nothing_is_an_error_and_not_a_hang(open_sink, log, pipe, writes):
    writes += [0]
    with pytest.raises(OSError, match="nothing was written"):
        open_sink(log).write(b"one\n")
    writes += [1, 0]
    with pytest.raises(OSError, match="nothing was written"):
        sinks.StreamSink(pipe[1]).write(b"one\n")


def test_a_line_that_a_full_disk_keeps_in_part_is_ended_later(open_sink, log, writes, monkeypatch):
    sink = open_sink(log)
    sink.write(b"one\n")
    writes += [2, no_space()]
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", lambda *_: (_ for _ in ()).throw(no_space()))
        with pytest.raises(OSError, match="No space"):
            sink.write(b"two\n")
    assert log.read_bytes() == b"one\ntw"
    writes += [no_space()]
    with pytest.raises(OSError, match="No space"):
        sink.write(b"three\n")
    sink.write(b"three\n")
    assert log.read_bytes() == b"one\ntw\nthree\n"


def test_a_folder_that_vanishes_and_comes_back_is_locked_anew(open_sink, log):
    folder = log.parent / "volume"
    folder.mkdir()
    first, second = open_sink(folder / "audit.log"), open_sink(folder / "audit.log")
    first.write(b"one\n")
    folder.rename(log.parent / "gone")
    with pytest.raises(FileNotFoundError):
        first.write(b"two\n")
    folder.mkdir()
    second.write(b"two\n")
    with pytest.raises(BlockingIOError, match="another process writes this audit log"):
        first.write(b"three\n")


def test_a_really_full_device_is_an_error_and_not_a_hang(open_sink, log):
    log.symlink_to(FULL)
    with pytest.raises(OSError, match="No space left on device"):
        open_sink(log).write(b"one\n")


def test_two_writers_of_one_log_are_refused_until_the_first_lets_go(open_sink, log):
    first, second = open_sink(log), open_sink(log)
    first.write(b"one\n")
    with pytest.raises(BlockingIOError, match=r"another process writes this audit log: .*audit\.log"):
        second.write(b"two\n")
    first.close()
    second.write(b"two\n")
    assert log.read_bytes() == b"one\ntwo\n"


def test_a_directory_that_does_not_exist_is_an_error_until_it_does(open_sink, log):
    sink = open_sink(log.parent / "later" / "audit.log")
    with pytest.raises(FileNotFoundError):
        sink.write(b"one\n")
    (log.parent / "later").mkdir()
    sink.write(b"two\n")


@pytest.mark.parametrize("options", [{"max_bytes": 0}, {"backups": 0}])
def test_a_file_without_size_or_elders_is_refused_at_once(log, options):
    with pytest.raises(ValueError, match=r"audit\.log: max_bytes .* and backups .* must be at least 1"):
        sinks.RotatingFileSink(log, **options)


def test_a_line_torn_at_the_end_does_not_keep_the_chain_from_going_on(open_sink, log, sealed, make_record):
    lines = sealed(2)
    log.write_bytes(lines[0] + lines[1] + b'{"changes":[{"af')
    sink = open_sink(log)
    sink.write(chain.Chain.resume_from(lines[1]).seal(make_record()))
    found = [(each.line, each.kind) for each in verification.verify(log_files.lines([log]))]
    assert found == [(3, "torn")]
