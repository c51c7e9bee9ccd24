"""vLLM: an OpenAI-compatible server that uses all of its GPUs and reports when it is ready."""

from __future__ import annotations

from muster.strategies.frameworks.vllm.vllm_strategy import VLLMStrategy

__all__ = ["VLLMStrategy"]
