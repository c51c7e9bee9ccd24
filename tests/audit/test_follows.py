"""A log that is read while it is written: every line once, in order, whatever happens to the files."""

from __future__ import annotations

import os
import random

import pytest

from muster.audit import follows, log_files, sinks
from muster.audit.follows import LogFollower


@pytest.fixture
def follower(log):
    made = LogFollower(log)
    yield made
    made.close()


def come(follower):
    return [line.data for line in follower.lines()]


def append(path, data):
    with path.open("ab") as stream:
        stream.write(data)


def rotate(log):
    for number in (2, 1):
        elder = log.with_name(f"audit.log.{number}")
        if elder.exists():
            elder.rename(log.with_name(f"audit.log.{number + 1}"))
    log.rename(log.with_name("audit.log.1"))


def test_a_file_that_is_deleted_when_it_was_just_opened_is_read_and_the_next_one_follows(log):
    class Late(LogFollower):
        """Somebody deletes the oldest file as soon as it is opened."""

        def _open(self, path, status):
            super()._open(path, status)
            if path.name == "audit.log.2":
                path.unlink()

    for name, data in (("audit.log.2", b"a\n"), ("audit.log.1", b"b\n"), ("audit.log", b"c\n")):
        log.with_name(name).write_bytes(data)
    late = Late(log)
    assert come(late) == [b"a", b"b", b"c"]
    late.close()


def test_what_is_there_comes_first_with_the_rotated_files_then_what_is_written(log, follower):
    log.with_name("audit.log.1").write_bytes(b"a\nb\n")
    log.write_bytes(b"c\n")
    assert come(follower) == [b"a", b"b", b"c"]
    assert come(follower) == []
    append(log, b"d\n\n")
    assert come(follower) == [b"d"]


def test_a_line_comes_when_it_is_whole(log, follower):
    log.write_bytes(b"a\nhal")
    assert come(follower) == [b"a"]
    append(log, b"f\n")
    assert come(follower) == [b"half"]


def test_the_last_lines_before_a_rotation_come_before_the_first_ones_after_it(log, follower):
    log.write_bytes(b"a\n")
    assert come(follower) == [b"a"]
    append(log, b"b\n")
    rotate(log)
    log.write_bytes(b"c\n")
    assert come(follower) == [b"b", b"c"]


def test_several_rotations_between_two_looks_lose_nothing(log, follower):
    log.write_bytes(b"a\n")
    assert come(follower) == [b"a"]
    for data in (b"b\n", b"c\n"):
        rotate(log)
        log.write_bytes(data)
    assert come(follower) == [b"b", b"c"]


def test_a_rotated_log_without_a_current_file_is_waited_for(log, follower):
    log.write_bytes(b"a\n")
    assert come(follower) == [b"a"]
    rotate(log)
    assert come(follower) == []
    log.write_bytes(b"b\n")
    assert come(follower) == [b"b"]


def test_a_file_that_something_else_took_away_is_read_to_its_end_and_then_the_new_one(log, follower, tmp_path):
    log.with_name("audit.log.1").write_bytes(b"elder\n")
    log.write_bytes(b"a\n")
    assert come(follower) == [b"elder", b"a"]
    append(log, b"b\n")
    log.rename(tmp_path / "audit-2026-03-01.log")
    log.write_bytes(b"c\n")
    assert come(follower) == [b"b", b"c"]


def test_a_file_that_was_deleted_is_followed_by_the_new_one(log, follower):
    log.write_bytes(b"a\n")
    assert come(follower) == [b"a"]
    log.unlink()
    assert come(follower) == []
    log.write_bytes(b"b\n")
    assert come(follower) == [b"b"]


def test_a_file_that_was_cut_to_nothing_is_read_from_its_beginning(log, follower):
    log.write_bytes(b"a long line\n")
    assert come(follower) == [b"a long line"]
    os.truncate(log, 0)
    append(log, b"b\n")
    assert come(follower) == [b"b"]


def test_a_torn_end_comes_when_the_file_will_not_go_on(log, follower):
    log.write_bytes(b"a\ntorn")
    assert come(follower) == [b"a"]
    rotate(log)
    log.write_bytes(b"b\n")
    assert come(follower) == [b"torn", b"b"]


def test_a_line_without_an_end_does_not_fill_the_memory(log, follower, monkeypatch):
    monkeypatch.setattr(log_files, "LONGEST", 100_000)
    log.write_bytes(b"x" * 400_000 + b"\nshort\n")
    assert [(line.number, line.data) for line in follower.lines()] == [(1, None), (2, b"short")]


def test_lines_are_numbered_within_their_file(log, follower):
    log.write_bytes(b"a\n\nb\n")
    assert [(line.file, line.number) for line in follower.lines()] == [(str(log), 1), (str(log), 3)]


@pytest.mark.parametrize("seed", range(5))
def test_what_our_own_writer_rotates_comes_whole_and_once(log, seed, sealed):
    chance = random.Random(seed)  # noqa: S311  # no secret
    sink, lines = sinks.RotatingFileSink(log, max_bytes=4000, backups=50), sealed(60)
    follower, got = LogFollower(log), []
    for line in lines:
        sink.write(line)
        if chance.random() < 0.3:
            got += come(follower)
    got += come(follower)
    assert got == [line.rstrip() for line in lines]
    sink.close()
    follower.close()


def test_several_logs_are_followed_until_the_reader_ends(log):
    other = log.with_name("other.log")
    log.write_bytes(b"a\n")
    other.write_bytes(b"b\n")
    pauses = []

    def pause():
        pauses.append(1)
        append((log, other)[len(pauses) % 2], b"more\n")

    lines = follows.follow([log, other], pause)
    assert [(next(lines).data, len(pauses)) for _ in range(4)] == [(b"a", 0), (b"b", 0), (b"more", 1), (b"more", 2)]
    lines.close()
