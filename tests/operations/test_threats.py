"""The threat model names real tests and covers all of STRIDE; what CI runs wants no secret."""

from __future__ import annotations

import ast
import re
import stat

import pytest

from tests.operations import pages

PAGE = "docs/internals/threat-model.md"
CATEGORIES = {
    "S": "Spoofing",
    "T": "Tampering",
    "R": "Repudiation",
    "I": "Information disclosure",
    "D": "Denial of service",
    "E": "Elevation of privilege",
}
THREATS = [row for heading in CATEGORIES.values() for row in pages.rows(pages.section(PAGE, heading))]
NAMED = set(re.findall(r"`([\w/]+\.py::\w+)`", pages.read(PAGE)))


def test_a_test_that_is_named_exists():
    there = set()
    for path in {each.partition("::")[0] for each in NAMED}:
        tree = ast.parse((pages.ROOT / path).read_text(encoding="utf-8"))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        there |= {f"{path}::{each.name}" for each in functions}
    assert NAMED - there == set()


@pytest.mark.parametrize("row", THREATS, ids=lambda row: row[0])
def test_each_threat_has_a_control_and_a_test(row):
    _, threat, control, tests = row
    assert threat
    assert len(control.split()) >= 5
    assert re.fullmatch(r"`[\w/]+\.py::test_\w+`(, `[\w/]+\.py::test_\w+`)*", tests)


@pytest.mark.parametrize("letter", CATEGORIES)
def test_threats_are_numbered_within_their_letter(letter):
    numbers = [row[0] for row in THREATS if row[0].startswith(letter)]
    assert numbers == [f"{letter}{number}" for number in range(1, len(numbers) + 1)]
    assert numbers


def test_what_ci_runs_reads_no_secret():
    """It is the README's command on a clean checkout, for proposals as well; nothing in it may want credentials."""
    programs = [path for path in (pages.ROOT / ".ci").iterdir() if path.is_file()]
    assert programs
    for path in programs:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"secret|token|password|credential|AWS_|DOCKER_", text, re.IGNORECASE), path
        assert not path.stat().st_mode & stat.S_IWOTH
    assert "make test" in "".join(path.read_text(encoding="utf-8") for path in programs)
