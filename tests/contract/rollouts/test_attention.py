"""AsyncGRPOTrainer computes the same with torch's own attention, on machines for which TRL's kernel is not made."""

import json
import os
import subprocess
from pathlib import Path

import pytest

PROBE = Path(__file__).with_name("attention.py")
IMAGES = PROBE.parents[3] / "images"


@pytest.fixture(scope="module")
def found(python):
    environment = os.environ | {
        "PYTHONPATH": str(IMAGES / "rollouts"), "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1",
    }  # fmt: skip
    done = subprocess.run([python, PROBE], env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_attention_without_kernels_is_attention(found):
    assert found["kernels"] < 1e-6
    assert found["window"] < 1e-6


def test_a_model_says_of_packed_samples_what_it_says_of_each_alone(found):
    assert found["packed"] < 1e-5


def test_what_it_cannot_do_is_refused(found):
    assert len(found["refusals"]) == 3
    assert all("is causal and has no softcap" in refusal for refusal in found["refusals"])
