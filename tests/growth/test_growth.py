"""The work of a decision grows with the size of its documents and no faster, whichever list or text of them grows.

Work is counted, not timed (`work`), in a process of its own, because the product is rewritten as it is imported.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

_FEW = ["jobset-torch"]
_TEXTS = {
    "scripts exec": 2,
    "scripts torchrun": 2,
    "scripts heredocs without": 2,
    "words jobset-torch": 8,
    "quantities": 4,
    "snapshots": 1,
}
_MORE_TEXTS = {"scripts": 140, "words": 40}
_KINDS = {("kind", "env of it and of its sampler"): 2}
_MEMORIES = 12
_MORE = ["trainjob-trl", "trainjob-torchtune", "jobset-vllm", "jobset-shell", "owned", "claims"]


def grown(*parts):
    command = [sys.executable, "-m", "tests.growth.measure", *parts]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)


@pytest.mark.parametrize("skeleton", [*_FEW, *(pytest.param(each, marks=pytest.mark.thorough) for each in _MORE)])
def test_no_list_of_a_job_makes_a_decision_grow_faster_than_the_job(skeleton):
    done = grown(skeleton)
    measured = re.search(r"^(\d+) measured, (\d+) too steep$", done.stdout, re.MULTILINE)
    assert measured, done.stderr
    assert int(measured[1]) > 50
    assert (done.returncode, int(measured[2])) == (0, 0), done.stdout


@pytest.mark.parametrize(
    ("texts", "least"),
    [*_TEXTS.items(), *(pytest.param(*each, marks=pytest.mark.thorough) for each in _MORE_TEXTS.items())],
)
def test_no_text_of_a_job_makes_a_decision_grow_faster_than_the_text(texts, least):
    done = grown(texts)
    measured = re.search(r"^(\d+) measured, (\d+) too steep$", done.stdout, re.MULTILINE)
    assert measured, done.stderr
    assert int(measured[1]) >= least
    assert (done.returncode, int(measured[2])) == (0, 0), done.stdout


def test_no_memory_that_an_author_wrote_makes_an_update_grow_faster_than_the_job():
    done = grown("memory of")
    measured = re.search(r"^(\d+) measured, (\d+) too steep$", done.stdout, re.MULTILINE)
    assert measured, done.stderr
    assert int(measured[1]) >= _MEMORIES
    assert (done.returncode, int(measured[2])) == (0, 0), done.stdout


@pytest.mark.parametrize(("kinds", "least"), _KINDS.items())
def test_no_lists_that_grow_together_make_a_decision_grow_faster_than_the_job(kinds, least):
    done = grown(*kinds)
    measured = re.search(r"^(\d+) measured, (\d+) too steep$", done.stdout, re.MULTILINE)
    assert measured, done.stderr
    assert int(measured[1]) >= least
    assert (done.returncode, int(measured[2])) == (0, 0), done.stdout


@pytest.mark.parametrize(
    ("kinds", "least"), [("together torch", 8), pytest.param("together", 16, marks=pytest.mark.thorough)]
)
def test_replicated_jobs_that_train_together_make_a_decision_grow_no_faster_than_their_number(kinds, least):
    done = grown(kinds)
    measured = re.search(r"^(\d+) measured, (\d+) too steep$", done.stdout, re.MULTILINE)
    assert measured, done.stderr
    assert int(measured[1]) >= least
    assert (done.returncode, int(measured[2])) == (0, 0), done.stdout


def test_work_that_grows_with_the_square_is_found():
    """The counter sees what a search in a list costs, although it is one operation of Python."""
    code = (
        "from tests.growth import work\n"
        "work.install()\n"
        "from muster.strategies.documents import paths\n"
        "counted = work.work\n"
        "before = counted.steps\n"
        "counted.contains(5000, list(range(5000)))\n"
        "print(counted.steps - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 5000
