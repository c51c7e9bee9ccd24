"""The rooms of the packages: what the drawing command finds, and that the house keeps to its map."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import rooms

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_a_circle_is_found_and_named_in_order():
    assert rooms.circle([("a", "b"), ("b", "c"), ("c", "a")])[0] in {"a", "b", "c"}
    assert len(rooms.circle([("a", "b"), ("b", "c"), ("c", "a")])) == 4
    assert rooms.circle([("a", "b"), ("a", "c"), ("b", "c")]) == []


@pytest.mark.parametrize(("package", "most"), [("strategies", 57), ("webhook", 60), ("certs", 60)])
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
    assert "  upstream -> nothing" in said


def test_more_arrows_than_allowed_fail(capsys):
    assert rooms.main(["strategies", "--most", "3"]) == 1


@pytest.mark.parametrize("package", ["strategies", "webhook"])
def test_the_map_of_the_house_names_each_room_and_no_other(package):
    table = PAGE.partition(f"### Inside `{package}`")[2].partition("\n\n##")[0]
    named = {
        room
        for row in table.splitlines()
        if row.startswith("| `")
        for room in re.findall("`([a-z]+)`", row.split("|")[1])
    }
    entries = (ROOT / package).iterdir()
    there = {entry.stem for entry in entries if entry.is_dir() or entry.suffix == ".py"}
    assert named == {room for room in there if not room.startswith("__")}
