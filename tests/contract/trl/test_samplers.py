"""What Muster writes for a sampler is what TRL's own parser reads."""

from __future__ import annotations

import json

import pytest

from tests.frameworks.sampled_jobs import applied, grpo, sampled

pytestmark = pytest.mark.thorough


def test_trl_reads_the_mode_the_url_and_the_patience_that_muster_writes(run_with_trl):
    first, _ = applied(grpo(), sampled(ready=False))
    answer = run_with_trl("parse_probe.py", request=[["grpo", *first.container["args"]]])
    values = json.loads(answer)[0]["values"]
    assert values["vllm_mode"] == "server"
    assert values["vllm_server_base_url"] == "http://$(MUSTER_SAMPLER):8000"
    assert values["vllm_server_timeout"] == 1800
