from __future__ import annotations

import pytest

from muster.audit import log_files
from muster.webhook.pages.log_places import GoneError, LinePlace, Shelf


def read(found):
    return [each.data for each in found]


@pytest.fixture
def shelf(log):
    """Five lines in three files; returns the shelf."""
    log.with_name("audit.log.2").write_bytes(b"a\n")
    log.with_name("audit.log.1").write_bytes(b"b\nc\n")
    log.write_bytes(b"d\n\ne\n")
    return Shelf([log])


def test_a_log_is_read_from_its_newest_line_back_across_its_files(shelf):
    assert read(shelf.upwards(0)) == [b"e", b"d", b"c", b"b", b"a"]


@pytest.mark.parametrize("number", range(5))
def test_from_each_place_it_can_be_read_on_in_both_directions(shelf, number):
    found = list(shelf.upwards(0))
    place = found[number].place
    assert shelf.at(place) == found[number]
    assert read(shelf.upwards(0, place)) == read(found[number + 1 :])
    assert read(shelf.downwards(place)) == read(reversed(found[:number]))


def test_a_place_outlives_rotation(shelf, log):
    places = {each.data: each.place for each in shelf.upwards(0)}
    log.with_name("audit.log.2").rename(log.with_name("audit.log.3"))
    log.with_name("audit.log.1").rename(log.with_name("audit.log.2"))
    log.rename(log.with_name("audit.log.1"))
    log.write_bytes(b"f\n")
    assert {data: shelf.at(place).data for data, place in places.items()} == {data: data for data in places}
    assert read(shelf.downwards(places[b"c"])) == [b"d", b"e", b"f"]


def test_a_file_that_is_rotated_while_it_is_read_is_neither_missed_nor_read_twice(shelf, log):
    found = shelf.upwards(0)
    assert next(found).data == b"e"
    log.with_name("audit.log.2").rename(log.with_name("audit.log.3"))
    log.with_name("audit.log.1").rename(log.with_name("audit.log.2"))
    log.rename(log.with_name("audit.log.1"))
    log.write_bytes(b"f\n")
    assert read(found) == [b"d", b"c", b"b", b"a"]


def test_a_place_in_a_deleted_file_is_gone(shelf, log):
    place = list(shelf.upwards(0))[-1].place
    log.with_name("audit.log.2").unlink()
    with pytest.raises(GoneError, match="deleted by rotation"):
        shelf.at(place)
    with pytest.raises(GoneError, match="deleted by rotation"):
        list(shelf.upwards(0, place))


@pytest.mark.parametrize("offset", [1, 3, 6, 10**17])
def test_a_byte_within_a_line_or_beyond_the_end_is_no_place(shelf, log, offset):
    log.write_bytes(b"dddd\ne")
    file = next(shelf.upwards(0)).place.file
    assert shelf.at(LinePlace(0, file, 5)).data == b"e"
    with pytest.raises(GoneError, match="no line begins"):
        shelf.at(LinePlace(0, file, offset))


NO_PLACES = ("", "1.2.3", "0.0123456789abcdef", "0.0123456789abcdeF.1", "99999.0123456789abcdef.1", "/etc/passwd")


@pytest.mark.parametrize("text", [*NO_PLACES, "0.0123456789abcdef.1234567890123456789"])
def test_what_is_no_place_is_refused(text):
    with pytest.raises(GoneError, match="is not a place"):
        LinePlace.parse(text)


def test_a_place_is_read_as_it_is_written(shelf):
    place = next(shelf.upwards(0)).place
    assert LinePlace.parse(str(place)) == place


def test_a_line_that_is_too_long_is_a_place_without_content(shelf, log, monkeypatch):
    monkeypatch.setattr(log_files, "LONGEST", 10)
    log.write_bytes(b"short\n" + b"x" * 200_000 + b"\nlast\n")
    found = list(shelf.upwards(0))[:3]
    assert read(found) == [b"last", None, b"short"]
    assert shelf.at(found[1].place).data is None
    assert read(shelf.downwards(found[2].place)) == [None, b"last"]


def test_a_log_that_is_not_there_holds_nothing(tmp_path):
    assert list(Shelf([tmp_path / "none.log"]).upwards(0)) == []
    assert list(Shelf([]).upwards(3)) == []
