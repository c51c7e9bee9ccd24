"""The real SDK sends, of each trainer, the document that `to_trainjob` makes; only the cluster is a stand-in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.suites.support import thorough

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def sent():
    python = shutil.which(os.environ.get("MUSTER_SDK_PYTHON", ""))
    if python is None:
        pytest.fail("MUSTER_SDK_PYTHON must name a python that has kubeflow's SDK; `make contract` does")
    kept = {}

    def send(count):
        if count not in kept:
            environment = os.environ | {"PYTHONPATH": str(HERE.parents[2]), "NO_PROXY": "127.0.0.1"}
            command = [python, HERE / "programs" / "sent.py", str(count)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
            assert done.returncode == 0, done.stdout + done.stderr
            kept[count] = json.loads(done.stdout.splitlines()[-1])
        return kept[count]

    return send


@pytest.mark.parametrize("count", thorough.but(200, of=(200, 5000)))
def test_what_is_sent_is_the_document_of_the_trainer(sent, count):
    found = sent(count)
    assert found["count"] == count
    assert found["different"] == []


def test_each_warning_of_a_real_answer_is_told_by_itself(sent):
    assert sent(200)["warnings"] == ['first, with "quotes" and a comma', "second"]


def test_a_real_refusal_is_told_with_its_causes(sent):
    found = sent(200)
    assert (found["refused"], found["causes"]) == ("denied the request", ["spec.x: wrong (muster core/x)"])


def test_a_builtin_trainer_with_a_config_of_ours_is_sent_as_the_document_of_that(sent):
    found = sent(200)["built"]
    assert found["sent"] == found["wanted"]
    assert found["sent"]["args"][0] == "trl.scripts.sft"
