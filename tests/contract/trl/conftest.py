"""The python that has TRL, and how the programs beside this file are run by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


HAS_TRL = "import importlib.util as u, sys; sys.exit(u.find_spec('trl') is None)"


@pytest.fixture(scope="session")
def trl_python() -> str:
    """Path of a python that has TRL. Without one the contract is unproven, which is a failure and not a skip."""
    named = os.environ.get("MUSTER_TRL_PYTHON", "")
    if not named or shutil.which(named) is None:
        pytest.fail(f"MUSTER_TRL_PYTHON must name a python that has trl installed (extra `trl`); it is {named!r}")
    if subprocess.run([named, "-c", HAS_TRL], check=False, timeout=60).returncode:
        pytest.fail(f"{named} (MUSTER_TRL_PYTHON) has no trl: install the extra `trl` there")
    return named


@pytest.fixture(scope="session")
def run_with_trl(trl_python, tmp_path_factory, temporary):
    """Run a program of this folder, or `-c code`, and return what it printed; no GPU, no network, no settings."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path_factory.mktemp("home")),
        "TMPDIR": temporary,
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
    }

    def run(*argv: str, request: object = None) -> str:
        done = subprocess.run(
            [trl_python, *argv],
            cwd=HERE,
            env=environment,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"{trl_python} {argv[0]} exited with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    return run


@pytest.fixture(scope="session")
def launch_answers(run_with_trl):
    """Ask launch_probe.py a batch of questions: importing torch is what takes the time."""

    def ask(launches: dict, configs: dict) -> dict:
        return json.loads(run_with_trl("launch_probe.py", request={"launches": launches, "configs": configs}))

    return ask
