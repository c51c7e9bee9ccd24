"""The figures of the house: what is counted in a tree, and what is not."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import orjson
import pytest

from tools import house

PLACE = "tests.tools.test_house"


@pytest.fixture
def tree(tmp_path):
    """Write files, and return their paths."""

    def write(**texts):
        files = [tmp_path / f"{name.replace('__in__', '/')}.py" for name in texts]
        for file, text in zip(files, texts.values(), strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return files

    return write


def test_lines_are_those_of_wc(tree):
    assert house.lines(tree(one="a = 1\n\n# b\n", two="")) == 3


def test_a_name_of_two_modules_is_found_wherever_they_are():
    files = map(Path, ("a/pods.py", "b/c/pods.py", "a/jobs.py", "a/__init__.py", "b/__init__.py", "a/conftest.py"))
    assert house.twice(files) == {"pods"}


def test_each_file_is_parsed(tree):
    assert [len(each.body) for each in house.trees(tree(one="a = 1\nb = 2\n", two=""))] == [2, 0]


@pytest.mark.parametrize(
    ("count", "source", "number"),
    [
        (house.anys, "from typing import Any\ndef f(a: Any, *b: list[Any]) -> dict[str, Any]: ...", 3),
        (house.anys, "# Any\n'Any'", 0),
        (house.empties, "a or {}; b or (); f(c or d or {}, e or {'f': 1}, g or (1,), h or [])", 3),
        (house.empties, "a and {}; {} or a", 0),
        (house.isinstances, "isinstance(a, dict); isinstance(b, (int, list)); isinstance(c, str | None)", 3),
        (house.isinstances, "isinstance(a, Mapping)", 1),
        (house.isinstances, "isinstance(a, int); isinstance(dict, type); a.isinstance(b, dict)", 0),
    ],
)
def test_what_is_counted_in_source(count, source, number):
    assert count(ast.parse(source)) == number


def parse(argv):
    return orjson.loads(orjson.dumps(argv))


def works():
    parse(["a", "b"])
    parse(["a", "b"])
    parse(["c"])
    json.loads(json.dumps([each for each in range(3)]))  # noqa: C416  # a comprehension is no function


def test_calls_modules_json_and_command_lines_of_one_call_are_counted():
    work = house.counted(works, package="tests.tools", parser=(PLACE, "parse", "argv"))
    assert work.calls == {(works.__module__, "works"): 1, (works.__module__, "parse"): 3}
    assert (work.json["dumps"], work.json["loads"]) == (4, 4)
    assert work.parsed == {("a", "b"): 2, ("c",): 1, (): 0}


def test_what_other_packages_do_is_not_counted():
    assert not house.counted(works, package="tests.to").calls


def test_modules_of_a_program_are_those_that_python_has_not_by_itself():
    found = house.imported("import colorsys")
    assert "colorsys" in found
    assert not {"sys", "os"} & found


def test_a_program_is_compared_with_another():
    assert house.ratio("sum(range(3_000_000))", "", 1) > 1
