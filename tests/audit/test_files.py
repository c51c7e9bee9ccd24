from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.audit import log_files


def test_files_are_listed_oldest_first_whatever_the_number_of_digits(log):
    for name in ("audit.log", "audit.log.1", "audit.log.2", "audit.log.10"):
        log.with_name(name).touch()
    assert [path.name for path in log_files.rotated(log)] == ["audit.log.10", "audit.log.2", "audit.log.1", "audit.log"]


def test_what_only_has_a_similar_name_is_not_part_of_the_log(log):
    for name in ("audit.log", "audit.log.lock", "audit.log.1.gz", "audit.log2", "xaudit.log.1"):
        log.with_name(name).touch()
    assert log_files.rotated(log) == [log]


def test_a_log_that_was_just_rotated_has_no_current_file(log):
    log.with_name("audit.log.1").touch()
    assert [path.name for path in log_files.rotated(log)] == ["audit.log.1"]


def test_lines_are_numbered_within_their_file_and_empty_ones_are_counted_but_passed_over(log):
    elder = log.with_name("audit.log.1")
    elder.write_bytes(b"a\n\nb\n")
    log.write_bytes(b"c\r\nd")
    read = [(line.file, line.number, line.data) for line in log_files.lines([elder, log])]
    assert read == [(str(elder), 1, b"a"), (str(elder), 3, b"b"), (str(log), 1, b"c"), (str(log), 2, b"d")]


def test_a_file_that_cannot_be_read_is_named(log):
    with pytest.raises(FileNotFoundError, match=r"audit\.log"):
        list(log_files.lines([log]))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=50).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.integers(1, 20))
def test_last_lines_are_the_lines_backwards(tmp_path_factory, lines, block):
    path = tmp_path_factory.mktemp("log") / "audit.log"
    path.write_bytes(b"\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "_BLOCK", block)
        assert list(log_files.last_lines(path)) == [line for line in reversed(lines) if line.strip()]
