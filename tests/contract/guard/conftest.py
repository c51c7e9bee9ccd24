"""A small training, launched by torchrun."""

from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "ddp.py")


@pytest.fixture
def torchrun(nodes):
    """Run the training of `programs/ddp.py` by torchrun."""

    def run(*arguments, count=1, each=1, **more):
        sizes = {"PET_NNODES": str(count), "PET_NPROC_PER_NODE": str(each)}
        return nodes("torchrun", PROGRAM, *arguments, count=count, **{**sizes, **more})

    return run
