"""Models: the longest context of the known families, and whether they have experts, by the name of a model.

vLLM refuses a `--max-model-len` above the context of the model's configuration (`config/model.py`
_get_and_verify_max_len), and expert parallelism without experts (_verify_with_expert_parallelism). The lengths are
`max_position_embeddings` of each model's config.json, of which only those are here that all sizes of a family share. A
folder may hold a changed configuration, so that both are warnings.
"""

from __future__ import annotations

import re

from muster.strategies.frameworks.vllm import heads

__all__ = ["context", "is_dense", "is_latent"]

_LONGEST = 128
_TUNED = r"(?:-(?:instruct|chat|it|hf|awq|fp8|bnb-4bit|gptq-int[48]|v0\.[123]))*"
_CONTEXTS = [
    (re.compile(pattern + _TUNED, re.IGNORECASE), length)
    for pattern, length in (
        (r"qwen2\.5-(?:coder-)?\d+(?:\.\d+)?b-instruct", 32_768),
        (r"qwen3-(?:0\.6b|1\.7b|4b|8b|14b|32b|30b-a3b|235b-a22b)", 40_960),
        (r"llama-2-\d+b", 4_096),
        (r"(?:meta-)?llama-3-(?:8|70)b", 8_192),
        (r"(?:meta-)?llama-3\.[123]-\d+b", 131_072),
        (r"codellama-(?:7|13|34)b", 16_384),
        (r"tinyllama-1\.1b-chat-v\d\.\d", 2_048),
        (r"gemma-(?:2-)?(?:2|7|9|27)b", 8_192),
        (r"mixtral-8x7b", 32_768),
        (r"mixtral-8x22b", 65_536),
        (r"mistral-7b(?:-instruct)?-v0\.[123]", 32_768),
        (r"phi-2", 2_048),
        (r"phi-4", 16_384),
        (r"smollm2-(?:135m|360m|1\.7b)", 8_192),
        (r"olmo-2-1124-(?:7|13)b", 4_096),
    )
]
_MIXTURES = re.compile(
    r"qwen3-(?:coder-)?\d+b-a\d+b|llama-4-|mixtral-|deepseek-(?:v3|r1)|gpt-oss-|glm-4\.5", re.IGNORECASE
)


def context(model: str) -> int | None:
    """Return the longest context of a model in tokens, None where it is not known."""
    name = _name(model)
    return next((length for pattern, length in _CONTEXTS if pattern.fullmatch(name)), None)


def is_dense(model: str) -> bool:
    """Whether a model is known to have no experts."""
    name = _name(model)
    return heads.find(name) is not None and (_MIXTURES.match(name) is None or "distill" in name.lower())


def is_latent(model: str) -> bool:
    """Whether a model keeps its keys and values together in a latent form, so that it has no heads of them."""
    return _LATENT.match(_name(model)) is not None


_LATENT = re.compile(r"deepseek-(?:v[23]|r1(?!-distill|-0528-qwen3))", re.IGNORECASE)


def _name(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2][:_LONGEST]
