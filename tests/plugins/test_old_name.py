"""Plugins that import `strategies`, the name before `muster.strategies`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MESSAGE = "write `from muster.strategies import ...`"
SHOWN = f"DeprecationWarning: `strategies` is `muster.strategies` now: {MESSAGE}"
LIST = "from muster.strategies.frameworks import builtin; print(*builtin.load(), sep='\\n')"


@pytest.fixture
def run(tmp_path):
    """Run a program where `muster` can be imported and the folders of this checkout cannot."""
    (tmp_path / "muster").symlink_to(ROOT / "muster")
    point = tmp_path / "old-1.0.dist-info" / "entry_points.txt"
    point.parent.mkdir()
    point.write_text("[muster.strategies]\nold = old_plugin:Old\n")
    point.with_name("METADATA").write_text("Metadata-Version: 2.1\nName: old\nVersion: 1.0\n")
    plugin = 'from strategies import TorchFamily\n\n\nclass Old(TorchFamily):\n    framework, version = "old", "1.0"\n'
    plugin += "    def enforce_command(self, job, changes): ...\n"
    (tmp_path / "old_plugin.py").write_text(plugin)

    def run(program):
        command = [sys.executable, "-W", "always::DeprecationWarning", "-c", program]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_a_plugin_that_imports_the_old_name_is_registered_and_told_the_new_one(run):
    done = run(LIST)
    assert done.returncode == 0, done.stderr
    assert "old 1.0 (old 1.0)" in done.stdout
    assert f"old_plugin.py:1: {SHOWN}" in done.stderr


def test_the_old_name_has_the_same_objects_and_works_under_the_test_kit(run):
    program = "same = [getattr(strategies, each) is getattr(new, each) for each in strategies.__all__]; print(same)"
    done = run(f"import muster.testing, strategies, muster.strategies as new; {program}")
    assert "True" in done.stdout
    assert "False" not in done.stdout


def test_modules_behind_the_old_name_are_not_read_twice(run):
    assert "No module named 'strategies.jobs'" in run("import muster.testing, strategies.jobs").stderr


@pytest.mark.parametrize("file", ["strategies.py", "strategies/__init__.py", "strategies/own.py"])
def test_a_package_of_that_name_that_somebody_has_is_what_is_imported(run, tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    done = run("import muster.testing, strategies; print(strategies.__spec__)")
    assert str(tmp_path / "strategies") in done.stdout
    assert done.stderr == ""
