"""A mutation run over a small package, from the command to its report."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tools.mutants.measures import SITE

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
SHOP = """\
    def price(count):
        return count * 3 if count < 10 else 30


    def unseen():
        return 1
"""
PROGRAM = """\
    from shop import prices

    print(prices.price(4))
"""
TESTS = """\
    import subprocess
    import sys

    import pytest
    from hypothesis import given, strategies as st

    from shop import prices


    @given(st.integers(0, 5))
    def test_few(count):
        assert prices.price(count) == 3 * count


    def test_program():
        assert subprocess.run([sys.executable, "-m", "shop"], capture_output=True, text=True).stdout == "12\\n"


    @pytest.mark.slow
    def test_that_is_not_of_the_tier():
        raise AssertionError
"""
INI = """\
    [pytest]
    addopts = --import-mode=importlib
    pythonpath = .
    asyncio_default_fixture_loop_scope = function
    markers = slow
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    root = tmp_path_factory.mktemp("shop")
    files = {"shop/__init__.py": "", "shop/prices.py": SHOP, "shop/__main__.py": PROGRAM, "tests/test_prices.py": TESTS}
    for name, text in {**files, "pytest.ini": INI}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(textwrap.dedent(text))
    return root


@pytest.fixture(scope="module")
def run(shop):
    def run(*arguments):
        command = [sys.executable, "-m", "tools.mutants", "shop", "--root", str(shop), "--workers", "1"]
        command += ["--tests", "tests -m 'not slow'", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=shop, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def ran(run):
    return run("--count", "100", "--aim", "99")


@pytest.fixture(scope="module")
def results(ran, shop):
    return {each["difference"][-1]: each for each in json.loads((shop / "build/mutants/results.json").read_text())}


def test_a_fault_that_a_test_notices_is_killed_by_it(results):
    fault = results["+    return (count // 3) if count < 10 else 30"]
    assert (fault["outcome"], fault["by"]) == ("killed", "tests/test_prices.py::test_few")


def test_a_fault_that_only_a_started_program_runs_is_noticed(results):
    fault = results["+pass"]
    assert (fault["file"], fault["outcome"]) == ("shop/__main__.py", "killed")
    assert fault["by"] == "tests/test_prices.py::test_program"


def test_a_fault_that_no_test_tells_apart_survives(results):
    fault = results["+    return count * 3 if count < 11 else 30"]
    assert (fault["outcome"], fault["tests"]) == ("survived", 2)


def test_a_program_imports_the_fault_though_it_cannot_import_the_tool(shop, tmp_path):
    trial = tmp_path / "mutant.json"
    trial.write_text(
        json.dumps({"root": str(shop), "file": "shop/prices.py", "source": "def price(n): return 'wrong'"})
    )
    environment = {"PYTHONPATH": os.pathsep.join((str(SITE), str(shop))), "MUTANTS_TRIAL": str(trial)}
    ran = subprocess.run(
        [sys.executable, "-m", "shop"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("wrong\n", "")


def test_a_fault_on_a_line_that_no_test_runs_survives(results):
    assert {results[line]["tests"] for line in ("+    return 2", "+    return None")} == {0}


def test_the_report_lists_survivors_and_misses_its_aim(ran):
    assert ran.returncode == 1
    assert "shop/prices.py:2: survived (constant)" in ran.stdout
    assert "-    return count * 3 if count < 10 else 30" in ran.stdout
    assert "none reaches it" in ran.stdout


def test_the_source_is_as_it_was(ran, shop):
    assert (shop / "shop/prices.py").read_text() == textwrap.dedent(SHOP)


def test_tests_that_fail_without_a_fault_end_the_run(ran, run, shop):
    (shop / "tests/test_more.py").write_text("def test_wrong():\n    assert 1 == 2\n")
    failed = run("--count", "1")
    assert failed.returncode == 2
    assert "1 tests fail without any fault" in failed.stderr
