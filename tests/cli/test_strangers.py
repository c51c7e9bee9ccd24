"""Muster in a folder whose own packages have the names of Muster's rooms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import jobs

ROOMS = ("certs", "sessions", "strategies", "webhook")
FILE = str(jobs.EXAMPLES / "01-trl-sft-two-nodes.yaml")


@pytest.fixture(params=[True, False], ids=["with __init__.py", "without"])
def run(request, tmp_path):
    """Run a command in the folder of a stranger, who may have marked packages as such."""
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "own.py").write_text(f"NAME = {room!r}\n")
        if request.param:
            (tmp_path / room / "__init__.py").touch()

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.mark.parametrize("first", ["muster", "stranger"])
def test_packages_of_both_can_be_imported(run, first):
    ours = [f"import muster.{room}" for room in ROOMS]
    theirs = [f"import {room}.own; print({room}.own.NAME)" for room in ROOMS]
    lines = ["import muster; muster.TRLTrainer", *(ours + theirs if first == "muster" else theirs + ours)]
    assert run(sys.executable, "-c", "\n".join(lines)).stdout.split() == list(ROOMS)


@pytest.mark.parametrize("command", [(sys.executable, "-m", "muster"), (str(Path(sys.executable).parent / "muster"),)])
def test_the_command_works(run, command):
    assert "1 job: 0 errors" in run(*command, "check", FILE).stderr
