"""A transfer sends the adapter of a model that stays as it is, and refuses what vLLM would serve as something else."""

import json
import subprocess

import pytest

from tests.contract.weights.conftest import PROGRAMS

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def found(vllm, known):
    environment = known(trainer=True, TRL_EXPERIMENTAL_SILENCE="1")
    done = subprocess.run(
        [vllm, PROGRAMS / "attaching.py"], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_model_stays_what_the_sampler_has_bit_by_bit(found):
    assert found["attached"] == 0.0
    assert found["afterwards"] > 0.0, (
        "PEFT folds the adapter in and out again, with rounding, where nothing is attached"
    )


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("none", "the model has no adapter"),
        ("rank_pattern", "vLLM scales all matrices alike"),
        ("alpha_pattern", "vLLM scales all matrices alike"),
        ("lora_dropout", "set it to 0"),
        ("sharded", "adapters of a sharded model"),
    ],
)
def test_an_adapter_that_a_sampler_would_serve_as_another_is_refused(found, what, reason):
    assert reason in found["refusals"][what]


def test_an_adapter_that_can_be_served_is_not(found):
    assert found["refusals"]["right"] == ""
