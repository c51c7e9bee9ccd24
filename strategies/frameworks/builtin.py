"""The strategies that Muster ships."""
# ruff: noqa: PLW0108  # a command that defers modules runs only the module of the strategy that its jobs name

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.strategies.frameworks.default.default_strategy import DefaultStrategy
from muster.strategies.frameworks.samplers import sampled_strategy
from muster.strategies.frameworks.torch import torch_strategy
from muster.strategies.frameworks.torchtune import torchtune_strategy
from muster.strategies.frameworks.vllm import vllm_strategy
from muster.strategies.plugins.registry import FrameworkStrategy, Registry

__all__ = ["load"]

_SHIPPED: Mapping[str, Callable[[], FrameworkStrategy]] = {
    "torch": lambda: torch_strategy.TorchStrategy(),
    "torchtune": lambda: torchtune_strategy.TorchTuneStrategy(),
    "trl": lambda: sampled_strategy.SampledTRLStrategy(),
    "vllm": lambda: vllm_strategy.VLLMStrategy(),
}


def load(*, plugins: bool = True) -> Registry:
    """Return a registry of the strategies that Muster ships and, unless `plugins` is off, those of entry points."""
    registry = Registry(DefaultStrategy(), _SHIPPED)
    if plugins:
        registry.add_plugins()
    return registry
