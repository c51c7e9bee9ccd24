"""What a forward pass keeps for the backward pass, and what is computed again instead.

Layers are those that transformers marks for checkpointing, by `torch.utils.checkpoint`. Logits are made of a slice of
the tokens at a time: those of a sequence of 32,768 tokens and 152,000 words are 20 GB in float32, and as much again for
their gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

__all__ = ["LOGITS", "Scorer", "recompute_layers"]

LOGITS = 2**28
"""Bytes of the float32 logits that are in memory at once."""

_again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)  # nothing is drawn: there is no dropout


def recompute_layers(model: nn.Module, above: int) -> None:
    """Have each layer keep its inputs alone in passes of more than `above` tokens, padding included.

    What is computed again has the same bits.
    """
    for each in model.modules():
        if isinstance(each, GradientCheckpointingLayer):
            each.forward = _recomputed(each.forward, above)


def _recomputed(forward: Callable[..., Any], above: int) -> Callable[..., Any]:
    @wraps(forward)
    def wrapper(hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or hidden.shape[:-1].numel() <= above:
            return forward(hidden, *args, **kwargs)
        return _again(forward, hidden, *args, **kwargs)

    return wrapper


class Scorer(nn.Module):  # type: ignore[misc]  # mypy sees no torch
    """Log-probabilities of given tokens by a causal language model.

    Args:
        model: of transformers; it stays as it is.
        logits: bytes of logits in memory at once.
    """

    def __init__(self, model: Any, logits: int = LOGITS) -> None:
        super().__init__()
        self.model = model
        self._rows = max(1, logits // (4 * model.config.get_text_config().vocab_size))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return float32 [rows, longest, widest].

        Without a mask: padding is on the right, and no token looks to its right.

        Args:
            tokens: [rows, longest].
            targets: [rows, longest, widest], of each token those that may follow it.
        """
        found = self.model.base_model(tokens, use_cache=False)
        hidden = found.last_hidden_state
        if tokens.numel() <= self._rows:
            return self._score(found, hidden, targets)
        width = max(1, self._rows // len(tokens))
        slices = zip(hidden.split(width, 1), targets.split(width, 1), strict=True)
        return torch.cat([_again(self._score, found, *each) for each in slices], 1)

    def _score(self, found: Any, hidden: Tensor, targets: Tensor) -> Tensor:
        """Have the model go on from hidden states: what it makes of them is its own (scales, caps, heads)."""
        body = self.model.base_model
        body.forward = lambda *_, **__: type(found)(**{**found, "last_hidden_state": hidden})
        try:
            logits = type(self.model).forward(self.model, inputs_embeds=hidden, use_cache=False).logits.float()
        finally:
            del body.forward
        scores: Tensor = logits.gather(2, targets) - logits.logsumexp(2, keepdim=True)
        return scores
