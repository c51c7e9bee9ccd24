"""Heads: how many attention heads the known families of models have, of which tensor parallelism needs a divisor.

vLLM refuses a tensor parallel size that does not divide the attention heads (`config/model.py`
verify_with_parallel_config), and one that neither divides the key-value heads nor is a multiple of them
(`model_executor/layers/linear.py` QKVParallelLinear). Vocabularies are padded and set no limit.

The numbers are `num_attention_heads` and `num_key_value_heads` of each model's config.json: as litgpt at 26857050 has
them (`litgpt/config.py`, n_head and n_query_groups), for Qwen2 as torchtune 0.6 (`models/qwen2/_model_builders.py`),
for Llama 4, GLM 4.5, DeepSeek V3 and gpt-oss as transformers 5.17 (defaults of their configurations).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

__all__ = ["Heads", "find"]

_LONGEST = 128
_FAMILIES: dict[str, dict[str, tuple[int, int]]] = {
    r"qwen2-(?:math-|vl-)?": {"0.5b": (14, 2), "1.5b": (12, 2), "7b": (28, 4), "72b": (64, 8)},
    r"qwen2\.5-(?:coder-|math-|vl-)?": {
        "0.5b": (14, 2),
        "1.5b": (12, 2),
        "3b": (16, 2),
        "7b": (28, 4),
        "14b": (40, 8),
        "32b": (40, 8),
        "72b": (64, 8),
    },
    r"qwq-": {"32b": (40, 8)},
    r"deepseek-r1-distill-qwen-": {"1.5b": (12, 2), "7b": (28, 4), "14b": (40, 8), "32b": (40, 8)},
    r"qwen3-(?:coder-)?": {
        "0.6b": (16, 8),
        "1.7b": (16, 8),
        "4b": (32, 8),
        "8b": (32, 8),
        "14b": (40, 8),
        "32b": (64, 8),
        "30b-a3b": (32, 4),
        "235b-a22b": (64, 4),
    },
    r"llama-2-": {"7b": (32, 32), "13b": (40, 40), "70b": (64, 8)},
    r"codellama-": {"7b": (32, 32), "13b": (40, 40), "34b": (64, 8), "70b": (64, 8)},
    r"(?:meta-)?llama-3(?:\.[13])?-": {"8b": (32, 8), "70b": (64, 8), "405b": (128, 8)},
    r"(?:meta-)?llama-3\.2-": {"1b": (32, 8), "3b": (24, 8)},
    r"llama-4-": {"scout-17b-16e": (40, 8), "maverick-17b-128e": (40, 8)},
    r"deepseek-r1-distill-llama-": {"8b": (32, 8), "70b": (64, 8)},
    r"tinyllama-": {"1.1b": (32, 4)},
    r"gemma-": {"2b": (8, 1), "7b": (16, 16)},
    r"gemma-2-": {"2b": (8, 4), "9b": (16, 8), "27b": (32, 16)},
    r"gemma-3-": {"1b": (4, 1), "4b": (8, 4), "12b": (16, 8), "27b": (32, 16)},
    r"mistral-": {"7b": (32, 8)},
    r"mistral-large-instruct-": {"2407": (96, 8), "2411": (96, 8)},
    r"mixtral-": {"8x7b": (32, 8), "8x22b": (48, 8)},
    r"phi-(?!4-m)": {"2": (32, 32), "4": (40, 10)},
    r"phi-3(?:\.5)?-": {"mini": (32, 32)},
    r"phi-4-": {"mini": (24, 8)},
    r"falcon-": {"7b": (71, 1), "40b": (128, 8), "180b": (232, 8)},
    r"falcon3-": {"1b": (8, 4), "3b": (12, 4), "7b": (12, 4), "10b": (12, 4)},
    r"smollm2-": {"135m": (9, 3), "360m": (15, 5), "1.7b": (32, 32)},
    r"olmo-2-1124-": {"7b": (32, 32), "13b": (40, 40)},
    r"deepseek-(?:v3|r1)(?!-distill|-0528-qwen3)": {"": (128, 128)},
    r"gpt-oss-": {"20b": (64, 8), "120b": (64, 8)},
    r"glm-4\.5(?!-air)": {"": (96, 8)},
}
_PATTERNS = [
    (re.compile(family + re.escape(size) + r"(?![^-])", re.IGNORECASE), heads)
    for family, sizes in _FAMILIES.items()
    for size, heads in sizes.items()
]


@dataclass(frozen=True, slots=True)
class Heads:
    """The attention heads of a model.

    Attributes:
        query: attention heads.
        key_value: key-value heads, which a larger tensor parallel size replicates.
    """

    query: int
    key_value: int

    def allow(self, size: int) -> bool:
        """Whether vLLM can divide the heads among `size` GPUs."""
        larger, smaller = max(self.key_value, size), min(self.key_value, size)
        return self.query % size == 0 and larger % smaller == 0


def find(model: str) -> Heads | None:
    """Return the heads of a model by its name, or by a folder of that name; None where they are not known."""
    return _of_name(model.rstrip("/").rpartition("/")[2][:_LONGEST])


@functools.lru_cache(maxsize=256)  # servers of one fleet have one model
def _of_name(name: str) -> Heads | None:
    return next((Heads(*heads) for pattern, heads in _PATTERNS if pattern.match(name)), None)
