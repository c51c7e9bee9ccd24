"""The strategies that Muster ships; importing this module registers them."""

from __future__ import annotations

import strategies.frameworks.samplers
import strategies.frameworks.torch
import strategies.frameworks.torchtune
import strategies.frameworks.vllm  # noqa: F401  # importing registers
from strategies.frameworks.default import DefaultStrategy
from strategies.plugins.registry import Registry

__all__ = ["load"]


def load(*, plugins: bool = True) -> Registry:
    """Return a registry of the strategies that Muster ships and, unless `plugins` is off, those of entry points."""
    return Registry.load(DefaultStrategy(), plugins=plugins)
