"""vLLM: an OpenAI-compatible server that uses every GPU it claimed and says when it is ready."""

from __future__ import annotations

from strategies.frameworks.vllm.strategy import VLLMStrategy

__all__ = ["VLLMStrategy"]
