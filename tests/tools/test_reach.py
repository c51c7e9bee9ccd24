import textwrap

import pytest

from tools.mutants.measures import Measurement
from tools.mutants.mutations import Mutant
from tools.mutants.reach import Reach

SECONDS = {"tests/a.py::slow": 2.0, "tests/a.py::quick": 0.1, "tests/b.py::other": 0.1, "tests/c.py::far": 0.1}
SHOP = """\
    import functools

    LIMIT = 10
    LIMITS = {"all": LIMIT}


    def price(count):
        total = count
        return total


    def allowed(count):
        return count < LIMITS["all"]


    @functools.cache
    def table():
        return {1: 2}


    def row():
        return table()[1]
"""


@pytest.fixture
def reached(tmp_path):
    (tmp_path / "shop.py").write_text(textwrap.dedent(SHOP))

    def reached(line, **ran):
        lines = {int(at.removeprefix("line")): frozenset(nodes) for at, nodes in ran.items()}
        reach = Reach(tmp_path, Measurement({"shop.py": lines}, SECONDS, frozenset()))
        return reach.of(Mutant("shop.py", "not", (line, line), (0, 0), ""))

    return reached


def test_tests_that_ran_the_line_come_first_and_the_fastest_of_them_before(reached):
    selection = reached(8, line8={"tests/a.py::slow", "tests/a.py::quick"}, line13={"tests/b.py::other"})
    assert selection.first == ("tests/a.py::quick", "tests/a.py::slow")
    assert selection.others == ()


def test_neighbours_in_the_same_files_that_ran_the_module_come_after(reached):
    selection = reached(8, line8={"tests/a.py::quick"}, line13={"tests/a.py::slow", "tests/b.py::other"})
    assert (selection.first, selection.others) == (("tests/a.py::quick",), ("tests/a.py::slow",))


def test_a_constant_is_reached_by_its_name_through_other_constants(reached):
    assert reached(3, line13={"tests/b.py::other"}).first == ("tests/b.py::other",)


def test_an_answer_that_is_cached_is_reached_by_whoever_asks_for_it(reached):
    selection = reached(18, line18={"tests/a.py::quick"}, line22={"tests/b.py::other"})
    assert set(selection.first) == {"tests/a.py::quick", "tests/b.py::other"}


def test_what_no_test_runs_is_reached_by_none(reached):
    selection = reached(8, line13={"tests/b.py::other"})
    assert (selection.first, selection.others) == ((), ())


def test_a_few_files_come_first_and_those_that_are_most_about_the_line(tmp_path):
    (tmp_path / "shop.py").write_text("def f():\n    return 1\n")
    seconds = {f"tests/{file}.py::{index}": 0.1 for file in "abcde" for index in range(10)}
    ran = {node for node in seconds if node.startswith("tests/c") or node.endswith("0")}
    reach = Reach(tmp_path, Measurement({"shop.py": {2: frozenset(ran)}}, seconds, frozenset()))
    selection = reach.of(Mutant("shop.py", "constant", (2, 2), (0, 0), ""))
    assert {node.partition("::")[0] for node in selection.first} == {"tests/c.py", "tests/a.py", "tests/b.py"}
    assert set(selection.others) == {"tests/d.py::0", "tests/e.py::0"}


def test_a_constant_is_reached_by_its_name_though_a_program_that_a_test_starts_runs_it_too(reached):
    selection = reached(3, line3={"tests/c.py::far"}, line4={"tests/c.py::far"}, line13={"tests/b.py::other"})
    assert set(selection.first) == {"tests/b.py::other", "tests/c.py::far"}
