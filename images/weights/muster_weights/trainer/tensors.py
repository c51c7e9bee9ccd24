"""Tensors of torch as bytes that a file takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from muster_weights import manifests
from muster_weights.folders import Named
from muster_weights.refusals import Refused

__all__ = ["named"]


def named(tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[Named]:
    """Yield tensors as bytes, one in the memory of the host at a time. Raises `Refused` for a type without a name."""
    for name, tensor in tensors:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in manifests.ITEMS:
            raise Refused(f"{name}: type {dtype} cannot be sent by files: unset MUSTER_WEIGHTS_FOLDER and use NCCL")
        plain = tensor.detach().to("cpu").contiguous()
        yield name, dtype, tuple(plain.shape), memoryview(plain.reshape(-1).view(torch.uint8).numpy())
