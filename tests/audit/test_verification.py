from __future__ import annotations

import io

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.audit import anchor_notes, chain, log_files, verification


def problems(lines, anchor=None, **options):
    expected = anchor_notes.Noted([anchor]) if anchor else None
    found = verification.verify(log_files.numbered(io.BytesIO(b"".join(lines)), "audit.log"), expected, **options)
    return [each for each in found if each.is_fault]


def kinds(lines, **options):
    return [(problem.line, problem.kind) for problem in problems(lines, **options)]


def edited(line):
    return line.replace(b'"decision":"patched"', b'"decision":"allowed"')


def resealed(line):
    """What somebody does who edits a record and knows how to compute its hash."""
    record = orjson.loads(edited(line))
    record["hash"] = chain.digest_of(record)
    return chain.line_of(record)


def anchor_of(line):
    record = orjson.loads(line)
    return anchor_notes.Anchor(record["seq"], record["hash"])


def test_an_untouched_log_has_no_problems(sealed):
    assert problems(sealed(5)) == []


def test_a_log_that_begins_in_the_middle_says_so_and_that_is_no_fault(sealed):
    (found,) = verification.verify(log_files.numbered(io.BytesIO(b"".join(sealed(5)[3:])), "audit.log"))
    assert str(found) == "audit.log:1: begins: this chain begins at record 4; what stood before is not known"
    assert not found.is_fault


def test_a_log_of_which_the_first_record_was_edited_begins_with_it(sealed):
    first, *others = sealed(3)
    found = verification.verify(log_files.numbered(io.BytesIO(b"".join([edited(first), *others])), "audit.log"))
    assert [each.kind for each in found] == ["edited"]


def test_an_empty_log_has_no_problems():
    assert problems([]) == []


def test_an_edited_line_is_found_where_it_stands(sealed):
    lines = sealed(5)
    lines[2] = edited(lines[2])
    assert kinds(lines) == [(3, "edited")]


@pytest.mark.parametrize(("name", "value"), [("seq", 9), ("prev", "a" * 64), ("hash", "b" * 64), ("dropped", 4)])
def test_an_edit_of_the_chain_itself_is_found_once(sealed, name, value):
    lines = sealed(5)
    lines[2] = orjson.dumps({**orjson.loads(lines[2]), name: value}, option=orjson.OPT_SORT_KEYS) + b"\n"
    assert kinds(lines) == [(3, "edited")]


@pytest.mark.parametrize(
    "respell",
    [
        lambda line: line.replace(b'"uid":', b'"uid": '),
        lambda line: line.replace(b'"decision"', b'"decision":"denied","decision"'),
        lambda line: line.replace(b"alice", rb"\u0061lice"),
    ],
    ids=["space", "second key", "escape"],
)
def test_a_line_that_means_the_same_in_other_bytes_is_edited(sealed, respell):
    lines = sealed(3)
    lines[1] = respell(lines[1])
    assert kinds(lines) == [(2, "edited")]


def test_an_edited_and_resealed_line_no_longer_fits_its_successor(sealed):
    lines = sealed(5)
    lines[2] = resealed(lines[2])
    assert kinds(lines) == [(4, "replaced")]


def test_a_removed_line_breaks_the_chain(sealed):
    lines = sealed(5)
    del lines[2]
    (problem,) = problems(lines)
    assert (problem.line, problem.kind, problem.message) == (3, "removed", "record 3 is missing before this line")


def test_removed_lines_are_told_as_one_gap(sealed):
    lines = sealed(9)
    del lines[2:6]
    (problem,) = problems(lines)
    assert problem.message == "records 3 to 6 are missing before this line"


def test_two_lines_that_changed_places_are_moved_and_not_removed(sealed):
    lines = sealed(5)
    lines[1], lines[2] = lines[2], lines[1]
    assert kinds(lines) == [(3, "moved")]


def test_a_line_moved_far_down_is_moved(sealed):
    lines = sealed(9)
    lines.append(lines.pop(3))
    assert kinds(lines) == [(9, "moved")]


def test_lines_that_were_moved_out_of_one_place_are_all_moved(sealed):
    for order in ([4, 3, 5], [3, 5, 4], [5, 4, 3], [4, 5, 3]):
        lines = sealed(9)
        moved = {number: lines[number - 1] for number in order}
        lines = [line for line in lines if line not in moved.values()] + [moved[number] for number in order]
        assert kinds(lines) == [(7, "moved"), (8, "moved"), (9, "moved")]


def test_a_line_moved_before_the_beginning_of_a_rotated_log_is_moved(sealed):
    lines = sealed(9)[4:]
    lines[0], lines[1] = lines[1], lines[0]
    assert kinds(lines) == [(2, "moved")]


def test_a_copied_line_is_inserted(sealed):
    lines = sealed(5)
    lines.insert(4, lines[1])
    assert kinds(lines) == [(5, "inserted")]


def test_a_copy_of_the_first_line_is_told_once(sealed):
    lines = sealed(5)
    lines.insert(3, lines[0])
    assert kinds(lines) == [(4, "restarted")]


def test_a_forged_line_that_fits_betrays_itself_by_the_genuine_ones(sealed, make_record):
    lines = sealed(4)
    lines.insert(2, chain.Chain.resume_from(lines[1]).seal(make_record(uid="forged")))
    assert kinds(lines) == [(4, "inserted"), (5, "replaced")]


def test_a_line_torn_by_a_crash_is_told_and_the_chain_goes_on(sealed, make_record):
    lines = sealed(3)
    torn = chain.Chain.resume_from(lines[2]).seal(make_record())[:50] + b"\n"
    after = chain.Chain.resume_from(lines[2]).seal(make_record())
    assert kinds([*lines, torn, after]) == [(4, "torn")]


def test_a_torn_last_line_is_told(sealed):
    lines = sealed(3)
    assert kinds([*lines[:2], lines[2][:50]]) == [(3, "torn")]


def test_a_last_line_that_lacks_only_its_end_of_line_is_whole(sealed):
    lines = sealed(3)
    assert kinds([*lines[:2], lines[2].rstrip()]) == []


@pytest.mark.parametrize(
    "line", [b"Traceback (most recent call last):\n", b"[1]\n", b'{"level":"info"}\n', b"\0\0\0\n"]
)
def test_a_line_that_is_no_record_is_foreign(sealed, line):
    lines = sealed(3)
    assert kinds([*lines[:2], line, *lines[2:]]) == [(3, "foreign")]


def test_a_record_in_the_chain_that_does_not_fit_the_schema_is_told(make_record):
    (problem,) = problems([chain.Chain().seal(make_record(mode="strict"))])
    assert (problem.kind, "mode: 'strict'" in problem.message) == ("foreign", True)


def test_a_chain_that_starts_anew_is_told_unless_restarts_are_expected(sealed):
    lines = [*sealed(3), *sealed(2)]
    assert kinds(lines) == [(4, "restarted")]
    assert kinds(lines, restarts=True) == []


def test_a_chain_that_starts_anew_with_a_later_number_is_never_expected(sealed, make_record):
    stray = chain.Chain(3, "a" * 64).seal(make_record())
    assert kinds([*sealed(3), stray], restarts=True) == [(4, "replaced")]


def test_a_log_may_begin_in_the_middle_but_not_with_a_false_beginning(sealed, make_record):
    assert kinds(sealed(5)[3:]) == []
    assert kinds([chain.Chain(0, "a" * 64).seal(make_record())]) == [(1, "replaced")]
    assert kinds([chain.Chain(4, chain.GENESIS).seal(make_record())]) == [(1, "replaced")]


def test_a_tail_that_is_cut_off_is_found_by_an_anchor_only(sealed):
    lines = sealed(5)
    assert kinds(lines[:3]) == []
    (problem,) = problems(lines[:3], anchor=anchor_of(lines[4]))
    assert (problem.line, problem.kind) == (0, "anchor")
    assert "the log ends at record 3: its end was cut off" in problem.message


def test_a_log_written_anew_is_found_by_an_anchor_only(sealed):
    anchor = anchor_of(sealed(5)[4])
    link = chain.Chain()
    forged = [link.seal(orjson.loads(edited(line))) for line in sealed(5)]
    assert kinds(forged) == []
    assert "it was rewritten" in problems(forged, anchor=anchor)[0].message


def test_an_anchor_in_files_that_are_gone_is_told(sealed):
    lines = sealed(5)
    assert (
        "the log begins at record 4: older files are missing"
        in problems(lines[3:], anchor=anchor_of(lines[1]))[0].message
    )


@settings(deadline=None)
@given(count=st.integers(1, 6), position=st.integers(0, 5))
def test_an_anchor_that_the_log_holds_is_no_problem(sealed, count, position):
    lines = sealed(count)
    assert problems(lines, anchor=anchor_of(lines[position % count])) == []


def test_an_anchor_is_not_satisfied_by_an_edited_record_that_claims_its_hash(sealed):
    lines = sealed(3)
    anchor = anchor_of(lines[2])
    lines[2] = edited(lines[2])
    assert kinds(lines, anchor=anchor) == [(3, "edited"), (0, "anchor")]


def test_a_problem_reads_like_a_compiler_message():
    problem = verification.Problem("audit.log", 3, "edited", "record 3 does not match its hash")
    assert str(problem) == "audit.log:3: edited: record 3 does not match its hash"


def test_rotated_files_are_one_chain_and_problems_name_their_file(sealed, log):
    lines = sealed(6)
    for name, part in (
        ("audit.log.2", lines[:2]),
        ("audit.log.1", lines[2:4]),
        ("audit.log", [lines[4], edited(lines[5])]),
    ):
        log.with_name(name).write_bytes(b"".join(part))
    (problem,) = verification.verify(log_files.lines(log_files.rotated(log)))
    assert (problem.file, problem.line, problem.kind) == (str(log), 2, "edited")


def test_a_rotated_file_that_is_gone_leaves_a_gap(sealed, log):
    lines = sealed(6)
    log.with_name("audit.log.2").write_bytes(b"".join(lines[:2]))
    log.write_bytes(b"".join(lines[4:]))
    (problem,) = verification.verify(log_files.lines(log_files.rotated(log)))
    assert (problem.line, problem.message) == (1, "records 3 to 4 are missing before this line")


@settings(deadline=None)
@given(st.data())
def test_any_change_of_the_lines_before_the_last_is_found(sealed, data):
    lines = sealed(6)
    changed = data.draw(st.lists(st.sampled_from(lines), min_size=2, max_size=8))
    first = orjson.loads(changed[0])["seq"]
    last = orjson.loads(changed[-1])["seq"]
    untouched = changed == lines[first - 1 : last]
    assert (problems(changed) == []) == untouched


@settings(deadline=None)
@given(st.data())
def test_any_flipped_byte_is_found(sealed, data):
    lines = sealed(3)
    position = data.draw(st.integers(0, len(lines[1]) - 2))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != lines[1][position]))
    lines[1] = lines[1][:position] + bytes([value]) + lines[1][position + 1 :]
    assert problems(b"".join(lines).splitlines(keepends=True)) != []
