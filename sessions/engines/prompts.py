"""What a model thinks of a prompt: log-probabilities of its tokens, of the likeliest, and of those asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muster.sessions.seam import Sampled, Sampling

__all__ = ["NONE", "Thoughts", "asked"]

NONE = -99999.0
"""The log-probability in a cell without a token, as `tinker_public.proto` has it."""


def asked(request: Sampling) -> bool:
    """Return whether a request asks for anything of its prompt."""
    return request.prompt_logprobs or request.topk_prompt > 0 or request.targets is not None


class Thoughts:
    """What is asked for of a prompt, filled in as its logits come.

    Args:
        request: of N tokens.
    """

    def __init__(self, request: Sampling) -> None:
        self._request = request
        length, k = len(request.prompt), request.topk_prompt
        self._own = np.full(length, np.nan, np.float32)
        self._ids, self._values = np.zeros((length, k), np.int64), np.full((length, k), NONE, np.float32)
        self._targets = None if request.targets is None else np.zeros(request.targets.shape, np.float32)

    def add(self, start: int, logits: Tensor) -> None:
        """Take the logits float32 [rows, vocabulary] after the token `start` and those that follow it."""
        rows = min(len(logits), len(self._request.prompt) - 1 - start)
        if rows > 0:
            self._fill(slice(start, start + rows), logits[:rows].log_softmax(1))

    def _fill(self, places: slice, logprobs: Tensor) -> None:
        behind = slice(places.start + 1, places.stop + 1)
        tokens = torch.from_numpy(np.asarray(self._request.prompt[behind], np.int64)).to(logprobs.device)
        self._own[behind] = logprobs.gather(1, tokens[:, None])[:, 0].cpu().numpy()
        if self._request.topk_prompt > 0:
            top = logprobs.topk(self._request.topk_prompt, dim=1)
            self._ids[behind], self._values[behind] = top.indices.cpu().numpy(), top.values.cpu().numpy()
        if self._targets is not None and self._request.targets is not None:
            self._targets[places] = _those(self._request.targets[places], logprobs)

    def whole(self) -> Sampled:
        """Return it as it is answered."""
        first, out = _first(self._request), Sampled(targets=self._targets)
        self._own[:first], self._ids[:first], self._values[:first] = np.nan, 0, NONE
        if self._request.prompt_logprobs:
            out = replace(out, prompt_logprobs=self._own)
        if self._request.topk_prompt > 0:
            out = replace(out, topk_prompt=(self._ids, self._values))
        return out


def _those(targets: NDArray[np.int64], logprobs: Tensor) -> NDArray[np.float32]:
    tokens = torch.from_numpy(np.asarray(targets, np.int64)).to(logprobs.device)
    found: NDArray[np.float32] = logprobs.gather(1, tokens.clamp(min=0)).masked_fill(tokens < 0, 0).cpu().numpy()
    return found


def _first(request: Sampling) -> int:
    """Return the first place that is asked for; the first token has no log-probability."""
    return max(1, len(request.prompt) - request.last_n) if request.last_n is not None else 1
