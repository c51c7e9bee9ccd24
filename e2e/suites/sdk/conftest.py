"""A namespace with runtimes, and what the programs, which the SDK's own Python runs, met in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.places import REPOSITORY
from e2e.suites.support import documents, spaces, waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

_PROGRAMS = Path(__file__).parent / "programs"
_TUNE = ["tune", "run", "full_finetune_distributed", "--config", "llama3_2/1B_full"]
_GPUS = {"limits": {"nvidia.com/gpu": "2"}}
RUNTIMES = (
    documents.training_runtime("own-trl", "trl", nodes=2, ends=True),
    documents.training_runtime("torchtune-llama3.2-1b", "torchtune", command=_TUNE, resources=_GPUS, ends=True),
)


@pytest.fixture(scope="session")
def python() -> str:
    """The Python that has kubeflow's SDK."""
    found = shutil.which(os.environ.get("MUSTER_SDK_PYTHON", ""))
    if found is None:
        pytest.fail("MUSTER_SDK_PYTHON must name a python that has kubeflow's SDK installed; `make e2e` does")
    return found


@pytest.fixture(scope="module")
def team(kubectl: Kubectl) -> Iterator[Space]:
    """A namespace with a runtime of each framework, which Trainer has seen."""
    made = Space(spaces.named("sdk"), kubectl).make()
    made.apply(*RUNTIMES).expect()
    probes = [documents.trainjob("probe", each["metadata"]["name"], trainer={"numNodes": 1}) for each in RUNTIMES]
    for probe in probes:
        waits.until("Trainer to know the runtimes", lambda probe=probe: _known(made, probe))
    yield made
    made.remove()


@pytest.fixture(scope="module")
def run(python: str, kubectl: Kubectl, team: Space) -> Callable[[str], dict[str, Any]]:
    """Run a program in the SDK's Python; it prints what it met as JSON on its last line."""

    def run(program: str) -> dict[str, Any]:
        command = [python, str(_PROGRAMS / f"{program}.py"), kubectl.kubeconfig, team.name]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


def _known(space: Space, probe: dict[str, Any]) -> bool:
    return "must be created before" not in space.create(probe, dry_run=True).err
