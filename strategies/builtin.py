"""The strategies that Muster ships; importing this module registers them."""

from __future__ import annotations

import strategies.torch
import strategies.torchtune
import strategies.trl
import strategies.vllm  # noqa: F401  # importing registers
from strategies.default import DefaultStrategy
from strategies.registry import Registry

__all__ = ["load"]


def load(*, plugins: bool = True) -> Registry:
    """Return a registry of what Muster ships and, unless `plugins` is off, of what entry points bring."""
    return Registry.load(DefaultStrategy(), plugins=plugins)
