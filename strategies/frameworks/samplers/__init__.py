"""Trainings with a sampler: `trl grpo` and its like beside a vLLM server in a replicated job of the same JobSet."""

from __future__ import annotations

from muster.strategies.frameworks.samplers.sampled_strategy import SampledTRLStrategy

__all__ = ["SampledTRLStrategy"]
