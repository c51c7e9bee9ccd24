"""The rooms of the packages: what the drawing command finds, and that the house keeps to its map."""

from __future__ import annotations

import pytest

from tools import rooms


def test_a_circle_is_found_and_named_in_order():
    assert rooms.circle([("a", "b"), ("b", "c"), ("c", "a")])[0] in {"a", "b", "c"}
    assert len(rooms.circle([("a", "b"), ("b", "c"), ("c", "a")])) == 4
    assert rooms.circle([("a", "b"), ("a", "c"), ("b", "c")]) == []


@pytest.mark.parametrize(("package", "most"), [("strategies", 45), ("webhook", 60), ("certs", 60)])
def test_the_rooms_of_a_package_form_no_circle_and_few_arrows(package, most, capsys):
    if package == "certs":  # its modules are its rooms
        assert rooms.circle(rooms.read(package)) == []
        return
    assert rooms.main([package, "--most", str(most)]) == 0, capsys.readouterr().out


def test_the_command_names_each_room_with_what_it_imports(capsys):
    assert rooms.main(["strategies"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("strategies: ")
    assert "  changes -> documents (" in said
    assert "  documents -> nothing" in said


def test_more_arrows_than_allowed_fail(capsys):
    assert rooms.main(["strategies", "--most", "3"]) == 1
