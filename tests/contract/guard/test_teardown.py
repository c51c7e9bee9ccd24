"""A training over gloo that has finished ends, because the guard keeps gloo's groups; others it does not keep.

Without it, torch 2.13 deadlocks in about 2 of 100 rounds of `programs/teardowns.py` (of five runs of 100 rounds, one
ended and four hung, in rounds 1, 4, 8 and 62), and `programs/lateworks.py` aborts nearly always.
"""

import os
import select
import subprocess
from pathlib import Path

import pytest

from e2e.suites.support import thorough

PROGRAMS = Path(__file__).parent / "programs"
TEARDOWNS = str(PROGRAMS / "teardowns.py")
ROUNDS = 40
SILENCE = 15  # seconds; a round takes some 20 ms


@pytest.mark.parametrize("run", thorough.but(0, 1, of=range(10)))
def test_two_nodes_whose_groups_are_owned_last_by_a_model_end_and_their_groups_were_kept(nodes, run):
    sizes = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1"}
    done = nodes("torchrun", TEARDOWNS, "--rounds", str(ROUNDS), count=2, **sizes)

    assert done.codes == [0, 0], done.output
    assert done.output.splitlines().count(f"kept {ROUNDS + 1}") == 2


@pytest.mark.thorough
def test_without_the_guard_they_deadlock_within_some_rounds(python):
    known = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [python, TEARDOWNS, "--rounds", "5000"]
    printed, ended = b"", False
    with subprocess.Popen(command, env=known, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        while not ended and select.select([process.stdout], [], [], SILENCE if printed else 300)[0]:
            read = os.read(process.stdout.fileno(), 65536)
            printed, ended = printed + read, not read
        process.kill()

    assert printed.startswith(b"begun"), "it did not come so far"
    assert not ended, f"torch does not hang any more, so the guard need not keep groups: {printed[-100:]}"


def test_a_thread_that_waits_for_the_gil_at_the_end_does_not_abort_the_process(nodes):
    rank = {"MUSTER_GUARD_TOP": "1-1"}  # inherited from a launcher: the guard has less to do at the end
    done = nodes("python", str(PROGRAMS / "lateworks.py"), **rank)

    assert done.codes == [0], done.output


def test_only_gloos_groups_are_kept(nodes):
    done = nodes("python", str(PROGRAMS / "backends.py"))

    assert done.codes == [0], done.output
    assert done.output.splitlines()[-4:] == [
        "kept 0 of torch's fake backend",
        "kept 0 of a group of others",
        "kept 0 of NCCL",
        "kept 1 of gloo beside another backend",
    ]
