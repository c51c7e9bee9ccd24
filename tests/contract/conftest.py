"""A Python that has torch and TRL, and nodes of loopback to run it on."""

import os
import shutil
from pathlib import Path

import pytest

from tests.contract.nodes import Nodes


@pytest.fixture(scope="session")
def python() -> Path:
    named = shutil.which(os.environ.get("MUSTER_TRL_PYTHON", ""))
    if named is None:
        pytest.fail("MUSTER_TRL_PYTHON must name a python that has trl installed; `make contract` does")
    return Path(named)


@pytest.fixture
def nodes(python, tmp_path):
    """Run a command on several nodes at once."""
    found = Nodes(python, tmp_path)
    yield found.run
    found.close()
