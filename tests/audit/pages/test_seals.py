from __future__ import annotations

import orjson
import pytest

from muster.audit import chain
from muster.webhook.pages import record_seal
from muster.webhook.pages.log_places import Shelf


@pytest.fixture
def standing(log):
    """Write lines and return what is said of the one with this number."""

    def of(lines, number):
        log.write_bytes(b"".join(lines))
        shelf = Shelf([log])
        found = list(shelf.upwards(0))[::-1][number - 1]
        return record_seal.standing(shelf, found, orjson.loads(found.data))

    return of


def test_a_record_between_its_neighbours_is_intact(sealed, standing):
    said = standing(sealed(3), 2)
    assert said.is_intact
    assert (said.before.seq, said.after.seq) == (1, 3)


@pytest.mark.parametrize("number", [1, 3])
def test_at_either_end_of_the_log_there_is_no_neighbour_and_nothing_wrong(sealed, standing, number):
    said = standing(sealed(3), number)
    assert said.is_intact
    assert (said.before is None, said.after is None) == (number == 1, number == 3)


def test_an_edited_record_is_told(sealed, standing):
    lines = sealed(3)
    lines[1] = lines[1].replace(b'"alice"', b'"eve"')
    said = standing(lines, 2)
    assert "it was edited" in said.problem
    assert standing(lines, 1).problem == ""


def test_other_bytes_of_the_same_content_are_told(sealed, standing):
    lines = sealed(2)
    lines[0] = lines[0].replace(b'"user":', b'"user": ')
    assert "does not have the form in which Muster writes it" in standing(lines, 1).problem


def test_a_record_taken_out_is_told_on_both_sides(sealed, standing):
    first, _, third = sealed(3)
    assert standing([first, third], 1).after.problem == "records are missing between 1 and 3"
    assert standing([first, third], 2).before.problem == "records are missing between 1 and 3"


def test_a_record_exchanged_hash_and_all_is_told(sealed, standing, make_record):
    lines = sealed(3)
    lines[1] = chain.Chain(1, "0" * 64).seal(make_record())
    assert "one was replaced" in standing(lines, 2).before.problem
    assert "one was replaced" in standing(lines, 3).before.problem


def test_moved_lines_are_told(sealed, standing):
    first, second, third = sealed(3)
    assert "moved or inserted" in standing([first, third, second], 2).after.problem


def test_a_chain_that_another_process_began_is_no_problem(sealed, standing):
    said = standing([*sealed(2), *sealed(2)], 3)
    assert said.is_intact
    assert said.before.seq == 2


def test_lines_of_others_between_two_records_are_passed_over(sealed, standing):
    first, second = sealed(2)
    said = standing([first, b"Traceback\n" * 5, second], 1)
    assert (said.after.seq, said.is_intact) == (2, True)
