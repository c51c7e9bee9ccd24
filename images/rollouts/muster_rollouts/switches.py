"""What keeps AsyncGRPOTrainer of TRL 1.16.0 from machines without a Hopper GPU or a hub, and what replaces it.

TRL computes attention over packed samples with FlashAttention 3, which it fetches from the hub at the first forward
pass (`packing._flash_attn`), and asks CUDA for the name of the device (`get_peak_flops_per_device`).
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch.nn import functional
from trl.experimental.async_grpo import async_grpo_trainer, packing

__all__ = ["attend", "without_kernels"]


def without_kernels() -> None:
    """Compute attention with torch's own functions, on any device; call it before the trainer is made.

    It costs one call for each segment of each layer, and is for machines on which TRL's own does not run.
    """
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=attend)  # noqa: SLF001  # TRL has no public way
    if not torch.cuda.is_available():
        async_grpo_trainer.get_peak_flops_per_device = lambda *_: None


def attend(  # noqa: PLR0913  # those of flash_attn_varlen_func
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    starts_q: torch.Tensor,
    starts_k: torch.Tensor,
    longest_q: int,
    longest_k: int,
    *,
    softmax_scale: float | None = None,
    causal: bool = True,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> torch.Tensor:
    """Do what `flash_attn_varlen_func` of FlashAttention 3 does, where the last query sees the last key.

    Args:
        query: [N, H, D], segments behind each other.
        key: [K, G, D], the whole path of each segment, behind each other; H is a multiple of G.
        value: as key.
        starts_q: [S + 1], where segments begin.
        starts_k: [S + 1], where their paths begin.
        longest_q: ignored.
        longest_k: ignored.
        softmax_scale: None is 1 / sqrt(D).
        causal: must be true.
        window_size: keys before each query that it sees, and 0; -1 is all.
        softcap: must be 0.

    Raises:
        ValueError: for what must not be.
    """
    del longest_q, longest_k
    if not causal or softcap or (window_size[0] >= 0 and window_size[1] != 0):
        found = f"causal={causal}, softcap={softcap}, window_size={window_size}"
        msg = f"Attention without kernels is causal and has no softcap, but was asked for {found}."
        raise ValueError(msg)
    shares = query.shape[1] // key.shape[1]
    key, value = (states.repeat_interleave(shares, dim=1) for states in (key, value))
    bounds_q, bounds_k = starts_q.tolist(), starts_k.tolist()
    outputs = []
    for begin_q, end_q, begin_k, end_k in zip(bounds_q, bounds_q[1:], bounds_k, bounds_k[1:], strict=False):
        heads = (states.transpose(0, 1) for states in (query[begin_q:end_q], key[begin_k:end_k], value[begin_k:end_k]))
        mask = _mask(end_q - begin_q, end_k - begin_k, window_size[0], query.device)
        seen = functional.scaled_dot_product_attention(*heads, attn_mask=mask, scale=softmax_scale)
        outputs.append(seen.transpose(0, 1))
    return torch.cat(outputs)


def _mask(queries: int, keys: int, window: int, device: torch.device) -> torch.Tensor:
    """Return which key each query sees, bool [queries, keys]."""
    mine = torch.arange(keys - queries, keys, device=device)[:, None]
    theirs = torch.arange(keys, device=device)[None, :]
    seen = theirs <= mine
    return seen if window < 0 else seen & (theirs >= mine - window)
