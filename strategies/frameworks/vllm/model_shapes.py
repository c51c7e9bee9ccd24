"""Model shapes: heads, context and experts of the known families of models, by the name of a model.

vLLM refuses a tensor parallel size that does not divide the attention heads (`config/model.py`
verify_with_parallel_config), and one that neither divides the key-value heads nor is a multiple of them
(`model_executor/layers/linear.py` QKVParallelLinear). Vocabularies are padded and set no limit.

`model_shapes.json` has the numbers of each model's config.json: heads (num_attention_heads, num_key_value_heads) as
litgpt at 26857050 has them, for Qwen2 as torchtune, for Llama 4, GLM 4.5, DeepSeek V3 and gpt-oss as transformers
5.17; contexts (max_position_embeddings) where all sizes of a family share one. A folder may hold another configuration.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from msgspec import Struct

__all__ = ["Shape", "find"]

_LONGEST = 128
_TUNED = r"(?:-(?:instruct|chat|it|hf|awq|fp8|bnb-4bit|gptq-int[48]|v0\.[123]))*"


class Shape(Struct, frozen=True):
    """What is known of a model.

    Attributes:
        name: its name without owner or folder.
        query: attention heads, 0 where they are not known.
        key_value: key-value heads, which a larger tensor parallel size replicates.
        context: its longest context in tokens, None where it is not known.
        is_dense: whether it has no experts, None where that is not known.
        is_latent: whether it keeps keys and values together in a latent form, so that it has no heads of them.
    """

    name: str
    query: int
    key_value: int
    context: int | None
    is_dense: bool | None
    is_latent: bool

    def allows(self, size: int) -> bool | None:
        """Whether vLLM can divide the heads among `size` GPUs, None where they are not known."""
        larger, smaller = max(self.key_value, size), min(self.key_value, size)
        return None if not self.query else self.query % size == 0 and larger % smaller == 0


def find(model: str) -> Shape:
    """Return what is known of a model by its name, or by a folder of that name."""
    return _of_name(model.rstrip("/").rpartition("/")[2][:_LONGEST])


@functools.lru_cache(maxsize=256)  # servers of one fleet have one model
def _of_name(name: str) -> Shape:
    heads, contexts, mixtures, latent = _tables()
    query, key_value = next((found for pattern, found in heads if pattern.match(name)), (0, 0))
    context = next((length for pattern, length in contexts if pattern.fullmatch(name)), None)
    dense = None if not query else mixtures.match(name) is None or "distill" in name.lower()
    return Shape(name, query, key_value, context, dense, latent.match(name) is not None)


_Tables = tuple[
    list[tuple[re.Pattern[str], tuple[int, int]]], list[tuple[re.Pattern[str], int]], re.Pattern[str], re.Pattern[str]
]


@functools.cache
def _tables() -> _Tables:
    table = json.loads(Path(__file__).with_name("model_shapes.json").read_text(encoding="utf-8"))
    heads = [
        (re.compile(family + re.escape(size) + r"(?![^-])", re.IGNORECASE), (query, key_value))
        for family, sizes in table["families"].items()
        for size, (query, key_value) in sizes.items()
    ]
    contexts = [(re.compile(name + _TUNED, re.IGNORECASE), length) for name, length in table["contexts"].items()]
    mixtures, latent = (re.compile(table[kind], re.IGNORECASE) for kind in ("mixtures", "latent"))
    return heads, contexts, mixtures, latent
