"""The python that has vLLM, and how the programs beside this file are run by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def run_with_vllm(tmp_path_factory):
    """Run a program of this folder and return what it printed; no GPU, no network, no settings of the user."""
    python = shutil.which(os.environ.get("MUSTER_VLLM_PYTHON", ""))
    if python is None:
        pytest.fail("MUSTER_VLLM_PYTHON must name a python that has vllm installed; `make contract` does")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path_factory.mktemp("home")),
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
    }

    def run(*argv: str, request: object = None) -> str:
        done = subprocess.run(
            [python, *argv],
            cwd=HERE,
            env=environment,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"{python} {argv[0]} exited with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    return run
