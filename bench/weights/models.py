"""Models of chance, made on the spot: as those of the tests, and larger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from e2e.models import make

__all__ = ["made"]

_SHAPES = {5: (256, 512, 2), 96: (512, 2048, 6)}
"""Width, width of the layers between, and layers, by MiB in float32."""


def made(folder: Path, size: int) -> Any:
    """Write a model and its tokenizer, whose embeddings are not tied, and return it.

    Args:
        folder: where to.
        size: MiB, one of 5 and 96.
    """
    width, between, layers = _SHAPES[size]
    config = make.llama(0, tied=False).config
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = width, between, layers
    config.num_attention_heads = width // config.head_dim
    config.num_key_value_heads = width // config.head_dim // 2
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    make.tokenizer().save_pretrained(folder)
    return model
