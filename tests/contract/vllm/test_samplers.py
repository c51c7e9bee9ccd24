"""What Muster writes on a sampler is what vLLM's own parser reads."""

from __future__ import annotations

import json

import pytest

from tests.frameworks.builders import gpus
from tests.frameworks.sampled_jobs import applied, grpo, sampled, sampler, serving_in

pytestmark = pytest.mark.thorough


def test_vllm_reads_the_flags_that_muster_writes(run_with_vllm):
    job = grpo("--model_revision=v1", annotations={"muster.dev/vllm-features": "lora"})
    _, second = applied(job, sampled(sampler(resources=gpus(2))))
    script = grpo(command=["python", "t.py"], args=["--max_staleness=2", "--lora_r=20"])
    _, with_adapters = applied(script)
    lines = [serving_in(second)["args"], serving_in(with_adapters)["args"]]
    plain, adapters = json.loads(run_with_vllm("parse_probe.py", request={"serve": lines, "module": []}))["serve"]
    assert "error" not in plain
    assert (plain["model_tag"], plain["revision"]) == ("Qwen/Qwen2.5-0.5B", "v1")
    assert (plain["tensor_parallel_size"], plain["dtype"]) == (2, "bfloat16")
    assert plain["logprobs_mode"] == "processed_logprobs"
    assert "nccl" in json.dumps(plain["weight_transfer_config"])
    assert (adapters["enable_lora"], adapters["max_loras"], adapters["max_lora_rank"]) == (True, 4, 32)
