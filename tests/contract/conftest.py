"""A Python that has torch and TRL, and nodes of loopback to run it on."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.nodes import Nodes


@pytest.fixture(scope="session")
def python() -> Path:
    named = shutil.which(os.environ.get("MUSTER_TRL_PYTHON", ""))
    if named is None:
        pytest.fail("MUSTER_TRL_PYTHON must name a python that has trl installed; `make contract` does")
    return Path(named)


@pytest.fixture(scope="session", autouse=True)
def temporary(tmp_path_factory) -> Iterator[str]:
    """The folder for temporary files: torchrun makes one for its logs there and leaves it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))
        yield os.environ["TMPDIR"]


@pytest.fixture
def nodes(python, tmp_path):
    """Run a command on several nodes at once."""
    found = Nodes(python, tmp_path)
    yield found.run
    found.close()


@pytest.fixture(scope="module")
def module_nodes(python, tmp_path_factory):
    """Run a command on several nodes at once, for all tests of a module."""
    found = Nodes(python, tmp_path_factory.mktemp("nodes"))
    yield found.run
    found.close()
