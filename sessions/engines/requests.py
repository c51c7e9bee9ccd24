"""Whether a sampler can answer a request."""

from __future__ import annotations

import math

import numpy as np

from muster.sessions.engines.base import Base
from muster.sessions.refusals import Refused
from muster.sessions.seam import Sampling

__all__ = ["checked"]

_LARGEST = 2**31
_MOST = 1 << 25
"""Tokens with their log-probabilities in one answer, which has some twelve bytes for each."""


def checked(request: Sampling, base: Base) -> int:
    """Return how many tokens each sequence may have. Raises `Refused` for what the base cannot do."""
    _prompt(request, base)
    _choice(request)
    _wide(request, base)
    _targets(request, base)
    room = base.context - len(request.prompt)
    most = room if request.max_tokens is None else request.max_tokens
    if request.count > 0 and not 0 <= most <= room:
        raise Refused(
            f"sampling_params.max_tokens: {most}: pass 0 to {room}, for the prompt has {len(request.prompt)} "
            f"of the {base.context} tokens of this model's context"
        )
    asked = len(request.prompt) * request.topk_prompt + request.count * most * (1 + request.topk_sampled)
    if asked > _MOST:
        raise Refused(
            f"num_samples: the answer may have {asked} tokens with log-probabilities, and {_MOST} fit into one: pass "
            "smaller num_samples, max_tokens or topk_prompt_logprobs and topk_sample_logprobs"
        )
    return most


def _prompt(request: Sampling, base: Base) -> None:
    length = len(request.prompt)
    if not 1 <= length <= base.context:
        raise Refused(f"prompt: has {length} tokens: pass 1 to {base.context}")
    if np.min(request.prompt) < 0 or np.max(request.prompt) >= base.vocabulary:
        raise Refused(f"prompt: holds a token outside of 0 to {base.vocabulary - 1}: use the tokenizer of the model")
    if request.count < 0:
        raise Refused(f"num_samples: {request.count}: pass 0 or more")
    if request.last_n is not None and request.last_n < 1:
        raise Refused(f"prompt_logprobs_last_n: {request.last_n}: pass 1 or more")


def _choice(request: Sampling) -> None:
    if not (0 <= request.temperature < math.inf):
        raise Refused(f"sampling_params.temperature: {request.temperature}: pass 0 for greedy or a positive number")
    if not (0 < request.top_p <= 1):
        raise Refused(f"sampling_params.top_p: {request.top_p}: pass a number above 0, and 1 for all")
    if not -1 <= request.top_k < _LARGEST:
        raise Refused(f"sampling_params.top_k: pass a positive number below {_LARGEST}, or -1 for all")


def _wide(request: Sampling, base: Base) -> None:
    for name, value in (("prompt", request.topk_prompt), ("sampled", request.topk_sampled)):
        if not 0 <= value <= base.vocabulary:
            raise Refused(f"topk_{name}_logprobs: {value}: pass 0 to {base.vocabulary}")


def _targets(request: Sampling, base: Base) -> None:
    if request.targets is None:
        return
    targets = np.asarray(request.targets)
    if targets.ndim != 2 or len(targets) != len(request.prompt) - 1 or targets.dtype.kind not in "iu":
        raise Refused("target_prompt_logprobs: pass a row of token ids for each token of the prompt but the first")
    if targets.size and not (targets.min() >= -1 and targets.max() < base.vocabulary):
        raise Refused(f"target_prompt_logprobs: pass token ids below {base.vocabulary}, and -1 for none")
