"""What a model thinks of a prompt: log-probabilities of its tokens, of the likeliest, and of those asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sessions.seam import Sampled, Sampling

__all__ = ["NONE", "asked", "thought"]

NONE = -99999.0
"""The log-probability in a cell without a token, as `tinker_public.proto` has it."""


def asked(request: Sampling) -> bool:
    """Return whether a request asks for anything of its prompt."""
    return request.prompt_logprobs or request.topk_prompt > 0 or request.targets is not None


def thought(request: Sampling, logits: Tensor) -> Sampled:
    """Return what is asked for of a prompt.

    Args:
        request: of N tokens.
        logits: float32 [N, vocabulary].
    """
    logprobs = logits[:-1].log_softmax(1)
    out = Sampled()
    if request.prompt_logprobs:
        out = replace(out, prompt_logprobs=_own(request, logprobs))
    if request.topk_prompt > 0:
        out = replace(out, topk_prompt=_likeliest(request, logprobs))
    if request.targets is not None:
        out = replace(out, targets=_those(request.targets, logprobs))
    return out


def _own(request: Sampling, logprobs: Tensor) -> NDArray[np.float32]:
    out = np.full(len(request.prompt), np.nan, np.float32)
    tokens = torch.from_numpy(np.asarray(request.prompt[1:], np.int64)).to(logprobs.device)
    out[1:] = logprobs.gather(1, tokens[:, None])[:, 0].cpu().numpy()
    out[: _first(request)] = np.nan
    return out


def _likeliest(request: Sampling, logprobs: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    shape = (len(request.prompt), request.topk_prompt)
    ids, values = np.zeros(shape, np.int64), np.full(shape, NONE, np.float32)
    top = logprobs.topk(request.topk_prompt, dim=1)
    ids[1:], values[1:] = top.indices.cpu().numpy(), top.values.cpu().numpy()
    ids[: _first(request)], values[: _first(request)] = 0, NONE
    return ids, values


def _those(targets: NDArray[np.int64], logprobs: Tensor) -> NDArray[np.float32]:
    tokens = torch.from_numpy(np.asarray(targets, np.int64)).to(logprobs.device)
    found: NDArray[np.float32] = logprobs.gather(1, tokens.clamp(min=0)).masked_fill(tokens < 0, 0).cpu().numpy()
    return found


def _first(request: Sampling) -> int:
    """Return the first place that is asked for; the first token has no log-probability."""
    return max(1, len(request.prompt) - request.last_n) if request.last_n is not None else 1
