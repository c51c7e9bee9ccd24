"""A Gateway whose sampler is vLLM, in an interpreter of its own, and the real client."""

import gc
import os
import shutil
import signal

import numpy as np
import pytest
import tinker
from tinker import types

from muster.sessions.demo import tiny
from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum

pytestmark = pytest.mark.thorough

TEXT = [7, 8, 9, 10, 11, 12, 13, 14, 15]


class OnVllm(Gateway):
    ENGINES = ("--sampler", "vllm", "--sampler-option", "rank=8", "--sampler-option", "slots=2")

    def start(self):
        tiny.make(self.base, hidden=256, context=512)
        super().start()


@pytest.fixture
def gateway(tmp_path, monkeypatch, packages):
    python = shutil.which(os.environ.get("MUSTER_VLLM_PYTHON", ""))
    if python is None:
        pytest.fail("MUSTER_VLLM_PYTHON must name a python that has vllm installed; `make sessions` does")
    monkeypatch.setenv("PYTHONPATH", packages)
    monkeypatch.setattr(OnVllm, "ENGINES", (*OnVllm.ENGINES, "--sampler-python", python))
    with OnVllm(tmp_path) as made:
        yield made
    gc.collect()  # what the client leaves open is found while this test's own filters hold


def test_trainer_and_sampler_agree_through_the_client_and_a_killed_sampler_is_followed_by_another(gateway):
    with tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service:
        client = service.create_lora_training_client(base_model=str(gateway.base), rank=4, seed=3).result()
        for _ in range(2):
            client.forward_backward([datum(TEXT)], "cross_entropy")
            client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        expected = client.forward([datum(TEXT)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
        sampling = client.save_weights_and_get_sampling_client().result()
        scored = sampling.compute_logprobs(types.ModelInput.from_ints(TEXT)).result()
        np.testing.assert_allclose(scored[1:], expected, atol=1e-4)
        params = types.SamplingParams(max_tokens=300, seed=5, stop=[])
        prompt = types.ModelInput.from_ints(TEXT)
        first = sampling.sample(prompt=prompt, num_samples=2, sampling_params=params).result()
        waiting = sampling.sample(prompt=prompt, num_samples=2, sampling_params=params)
        os.kill(gateway.engine("sampler"), signal.SIGKILL)
        again = waiting.result()
        assert [each.tokens for each in again.sequences] == [each.tokens for each in first.sequences]
        output = client.forward([datum([*TEXT, *first.sequences[0].tokens])], "cross_entropy").result()
        told = output.loss_fn_outputs[0]["logprobs"].data[len(TEXT) - 1 :]
        np.testing.assert_allclose(first.sequences[0].logprobs, told, atol=1e-4)
