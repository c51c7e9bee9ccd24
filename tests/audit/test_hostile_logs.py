"""Logs from a volume on which others write: each reader ends, with bounded memory, and says what it did not read."""

from __future__ import annotations

import contextlib
import io
import os
import tracemalloc
from pathlib import Path

import orjson
import pytest

from muster.audit import chain, follows, log_files, queries, record_schema, sink_worker, sinks, verification
from muster.backoffs import Backoff

MIB = 1024 * 1024
DEEP = b'{"seq":1,"prev":"%s","hash":"%s","x":%s}' % (b"0" * 64, b"1" * 64, b"[" * 900 + b"]" * 900)


def lines_of(data):
    return list(log_files.numbered(io.BytesIO(data), "audit.log"))


def verified(data):
    return [(each.line, each.kind, each.message) for each in verification.verify(lines_of(data))]


class Counting(io.BytesIO):
    """Counts the bytes that are read, and notes the longest piece."""

    def __init__(self, data):
        super().__init__(data)
        self.count = self.longest = 0

    def _told(self, data):
        self.count += len(data)
        self.longest = max(self.longest, len(data))
        return data

    def readline(self, size=-1, /):
        return self._told(super().readline(size))

    def read(self, size=-1, /):
        return self._told(super().read(size))

    def __next__(self):
        return self._told(super().__next__())


@pytest.fixture
def short(monkeypatch):
    """The limits of lines, a thousand times smaller."""
    monkeypatch.setattr(log_files, "LONGEST", 32 * 1024)
    monkeypatch.setattr(log_files, "FARTHEST", 256 * 1024)


@pytest.mark.usefixtures("short")
def test_of_a_line_that_is_too_long_only_the_place_is_kept(sealed):
    first, second = sealed(2)
    stream = Counting(first + b"x" * 200_000 + b"\n" + second)
    read = [(each.number, each.data and len(each.data)) for each in log_files.numbered(stream, "audit.log")]
    assert read == [(1, len(first) - 1), (2, None), (3, len(second) - 1)]
    assert stream.longest <= 64 * 1024


@pytest.mark.usefixtures("short")
def test_a_line_that_is_too_long_is_told_by_verification_and_hides_no_other(sealed):
    first, second = sealed(2)
    ((line, kind, message),) = verified(first + b"x" * 200_000 + b"\n" + second)
    assert (line, kind) == (2, "foreign")
    assert "no record is that long" in message


def follow(path):
    with contextlib.closing(follows.LogFollower(path)) as follower:
        return list(follower.lines())


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("reader", [lambda path: list(log_files.lines([path])), follow])
def test_a_line_that_does_not_end_is_an_error_with_file_and_line_whatever_the_disk_says_it_has(log, sealed, reader):
    log.write_bytes(sealed(1)[0])
    os.truncate(log, 1024 * MIB)  # a hole, which takes nothing of the disk
    with pytest.raises(OSError, match="line 2 has more than 0 MiB; Muster did not write it") as caught:
        reader(log)
    assert caught.value.filename == str(log)


@pytest.mark.usefixtures("short")
def test_from_its_end_a_line_that_does_not_end_comes_in_parts_so_that_readers_can_stop(log):
    log.write_bytes(b"first\n" + b"x" * 1_000_000)
    with log.open("rb") as stream:
        found = list(log_files.upwards(stream, 1_000_006, log_files.LONGEST))
    assert found[-1] == (0, b"first")
    assert [line for _, line in found[:-1]] == [None] * 4
    assert found[-2][0] == 6


@pytest.mark.usefixtures("short")
def test_the_writer_looks_at_the_end_of_a_log_only(log, monkeypatch, make_record):
    reads = []
    before = log_files._block_before
    monkeypatch.setattr(log_files, "_block_before", lambda *args: reads.append(1) or before(*args))
    log.write_bytes(b"x" * 4_000_000 + b"\n")
    lane = sink_worker.SinkWorker(sinks.RotatingFileSink(log), Backoff(base=0.5), lambda *_: None)
    assert lane.write(make_record())
    assert len(reads) < 10
    lane.close()


@pytest.mark.parametrize("line", [DEEP, DEEP.replace(b"[", b'{"a":').replace(b"]", b"}").replace(b":}", b":0}", 1)])
def test_a_line_nested_deeper_than_can_be_hashed_is_a_problem_of_this_line(sealed, line):
    first, second = sealed(2)
    ((number, kind, message),) = verified(first + line + b"\n" + second)
    assert (number, kind) == (2, "foreign")
    assert "nested deeper than a record can be" in message


def test_the_deepest_record_that_can_be_written_can_be_read(make_record, make_change):
    deep = orjson.loads(b"[" * 251 + b"]" * 251)
    line = chain.Chain().seal(make_record(changes=[make_change(after=deep)]))
    assert verified(line) == []
    with pytest.raises(TypeError):
        chain.Chain().seal(make_record(changes=[make_change(after=[deep])]))


@pytest.mark.parametrize("value", ["[" * 500 + "]" * 500, '{"a":' * 500 + "0" + "}" * 500])
def test_a_value_of_any_depth_is_quoted_when_it_is_in_a_wrong_place(value):
    assert record_schema.misfit(orjson.loads(value))
    assert record_schema.misfit({"seq": orjson.loads(value)})


@pytest.mark.parametrize("value", [[*range(1_000_000)], dict.fromkeys(map(str, range(200_000)), 0), "x" * 8 * MIB])
def test_a_quote_takes_no_more_memory_than_it_shows(value):
    tracemalloc.start()
    assert record_schema.misfit(value)
    assert record_schema.misfit({"seq": value})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * MIB  # to sort the keys of an object takes 8 bytes each


def test_the_next_line_is_found_behind_one_that_cannot_be_continued(log, make_record, sealed):
    log.write_bytes(sealed(1)[0] + DEEP + b"\n")
    lane = sink_worker.SinkWorker(sinks.RotatingFileSink(log), Backoff(base=0.5), lambda *_: None)
    assert lane.write(make_record())
    assert [orjson.loads(line)["seq"] for line in log.read_bytes().splitlines()[2:]] == [2, 3]
    lane.close()


@pytest.mark.parametrize("piece", [b"[],", b'{"":0},', b"0.5,", b"[[[]]],"])
def test_a_line_that_would_fill_the_memory_is_not_parsed(piece, monkeypatch):
    monkeypatch.setattr(chain, "VALUES", MIB // 16)
    data = b"[" + piece * (MIB // 2 // len(piece)) + b"0]"
    tracemalloc.start()
    with pytest.raises(chain.LineError, match="more than 65536 values"):
        chain.parse(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(data)


@pytest.mark.parametrize("piece", [b'"', rb"\"", b"\\", rb"\\", b'"",', b"'"])
def test_no_quote_is_left_from_which_a_text_is_looked_at_again(piece):
    data = b"[" + b"," * (chain.VALUES + 1) + b'"' + piece * 1000
    assert b'"' not in chain._STRING.sub(b"", data)
    with pytest.raises(chain.LineError, match="values"):
        chain.parse(data)


def test_a_long_text_of_commas_is_one_value():
    assert chain.parse(orjson.dumps([',"[{' * MIB])) == [',"[{' * MIB]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"latencyMicroseconds":310', b'"latencyMicroseconds":' + b"1" * 5000),
        (b'"latencyMicroseconds":310', b'"latencyMicroseconds":NaN'),
        (b'"latencyMicroseconds":310', b'"latencyMicroseconds":1e400'),
        (b'"uid":"uid-2"', rb'"uid":"\ud800"'),
        (b'"uid":"uid-2"', b'"uid":"\xed\xa0\x80"'),
        (b'"uid":"uid-2"', b'"uid":"uid-1","uid":"uid-2"'),
        (b'"seq":2', b'"seq":' + b"9" * 19),
        (b'"seq":2', b'"seq":-' + b"9" * 18),
        (b'"seq":2', b'"seq":2.0'),
        (b'"time":"2026-03', '"time":"٢٠٢٦-03'.encode()),
    ],
)
def test_a_value_that_json_parsers_read_differently_is_a_problem_of_its_line(sealed, old, new):
    lines = sealed(3)
    assert old in lines[1]
    lines[1] = lines[1].replace(old, new)
    found = verified(b"".join(lines))
    assert [number for number, *_ in found][:1] == [2]
    assert all(len(message) < 300 for *_, message in found)
    assert [each.line for each in queries.parsed(lines_of(b"".join(lines)))] == [1, 2, 3]


def test_gaps_are_found_by_halving_and_their_number_is_bounded(monkeypatch):
    class Number(int):
        compared = 0

        def __lt__(self, other):
            Number.compared += 1
            return int(self) < other

        def __gt__(self, other):
            Number.compared += 1
            return int(self) > other

    held = verification._Gaps()
    for number in range(8000):
        held.add(verification._Gap(Number(2 * number), Number(2 * number), "audit.log", number))
    Number.compared = 0
    assert all(held.fill(2 * number) for number in reversed(range(8000)))
    assert Number.compared < 8000 * 20
    monkeypatch.setattr(verification, "KEPT", 10)
    settled = [gap for number in range(100) for gap in held.add(verification._Gap(number, number, "audit.log", number))]
    assert [gap.first for gap in (*settled, *held.settle())] == [*range(100)]


def every_other(count, make_record):
    """Return a log of which every second record is missing, and the missing ones."""
    link = chain.Chain()
    lines = [link.seal(make_record()) for _ in range(2 * count)]
    return lines[::2], lines[1::2]


def test_a_log_of_gaps_alone_is_told_whole_though_few_are_remembered(make_record, monkeypatch):
    monkeypatch.setattr(verification, "KEPT", 4)
    there, late = every_other(20, make_record)
    found = verified(b"".join(there))
    assert sorted(message for _, _, message in found) == sorted(
        f"record {number} is missing before this line" for number in range(2, 40, 2)
    )
    again = verified(b"".join([*there, late[0], late[-2]]))
    assert [(line, kind) for line, kind, _ in again if kind != "removed"] == [(21, "moved"), (22, "moved")]


def test_a_log_of_gaps_does_not_keep_its_lines(make_record):
    there, _ = every_other(60, lambda: make_record(message="x" * 100_000))
    tracemalloc.start()
    for _ in verification.verify(log_files.numbered(io.BytesIO(b"".join(there)), "audit.log")):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * sum(map(len, there)) * 0.6 + 4 * MIB


def test_gaps_of_many_chains_are_told_each_once(make_record):
    link = chain.Chain()
    first, _, third = (link.seal(make_record()) for _ in range(3))
    found = verified((first + third) * 5)
    assert [kind for _, kind, _ in found].count("removed") == 5


@pytest.mark.parametrize(
    "reader", [lambda path: list(log_files.lines([path])), lambda path: list(log_files.last_lines(path))]
)
def test_what_is_no_file_is_an_error_that_says_what_it_is_and_no_hang(log, reader):
    def told():
        with pytest.raises(OSError, match="not a regular file; copy the log into one") as caught:
            reader(log)
        return str(caught.value).partition(": ")[0], caught.value.filename

    os.mkfifo(log)
    assert told() == ("[Errno 22] it is a pipe and not a regular file; copy the log into one", str(log))
    log.unlink()
    log.mkdir()
    assert "it is a folder" in told()[0]
    log.rmdir()
    log.symlink_to(Path("/dev/zero"))
    assert "it is a device" in told()[0]


def test_a_link_that_leads_nowhere_is_not_passed_over(log, sealed):
    log.with_name("audit.log.1").write_bytes(sealed(1)[0])
    log.symlink_to(log)
    with pytest.raises(OSError, match="symbolic links"):
        list(log_files.lines(log_files.rotated(log)))
    log.unlink()
    log.symlink_to("gone")
    with pytest.raises(FileNotFoundError):
        list(log_files.lines(log_files.rotated(log)))


def test_a_pipe_where_the_service_writes_its_log_is_an_error_and_no_hang(log):
    os.mkfifo(log)
    with pytest.raises(OSError, match="this is a pipe"):
        sinks.RotatingFileSink(log).write(b"one\n")


def test_a_follower_copies_each_byte_once(log, monkeypatch):
    class Copied(bytes):
        count = 0

        def __radd__(self, other):
            Copied.count += len(other) + len(self)
            return other + bytes(self)

        def split(self, *args):
            return [Copied(part) for part in super().split(*args)]

    class Pieces(io.BytesIO):
        def read(self, size=-1, /):
            return Copied(super().read(size))

    monkeypatch.setattr(follows, "_BLOCK", 1024)
    log.write_bytes(b"x" * MIB + b"\n")
    monkeypatch.setattr(log_files, "opened", lambda path: Opened(path.read_bytes(), path))

    class Opened(Pieces):
        def __init__(self, data, path):
            super().__init__(data)
            self._path = path
            self._held = path.open("rb")

        def fileno(self):
            return self._held.fileno()

        def close(self):
            self._held.close()
            super().close()

    assert [len(line.data) for line in follow(log)] == [MIB]
    assert Copied.count < 4 * MIB


def test_a_file_with_two_names_is_followed_once(log, sealed):
    first, second = sealed(2)
    log.write_bytes(first + second)
    log.with_name("audit.log.1").hardlink_to(log)
    log.with_name("audit.log.2").symlink_to(log)
    with contextlib.closing(follows.LogFollower(log)) as follower:
        assert [line.data for line in follower.lines()] == [first.rstrip(), second.rstrip()]
        assert list(follower.lines()) == []


def test_a_log_of_too_many_files_is_an_error_and_not_cut(log, monkeypatch):
    monkeypatch.setattr(log_files, "FILES", 3)
    for number in range(1, 5):
        log.with_name(f"audit.log.{number}").touch()
    with pytest.raises(OSError, match="the log has 4 files, more than 3; move the oldest to another folder"):
        follow(log)
