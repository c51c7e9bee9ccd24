"""Plain torch: torchrun or a program that reads MASTER_ADDR; also the base of the frameworks that run on it."""

from __future__ import annotations

from muster.strategies.frameworks.torch.torch_strategy import TorchStrategy

__all__ = ["TorchStrategy"]
