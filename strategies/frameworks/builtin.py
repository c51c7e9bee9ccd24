"""The strategies that Muster ships; importing this module registers them."""

from __future__ import annotations

import muster.strategies.frameworks.samplers
import muster.strategies.frameworks.torch
import muster.strategies.frameworks.torchtune
import muster.strategies.frameworks.vllm  # noqa: F401  # importing registers
from muster.strategies.frameworks.default import DefaultStrategy
from muster.strategies.plugins.registry import Registry

__all__ = ["load"]


def load(*, plugins: bool = True) -> Registry:
    """Return a registry of the strategies that Muster ships and, unless `plugins` is off, those of entry points."""
    return Registry.load(DefaultStrategy(), plugins=plugins)
