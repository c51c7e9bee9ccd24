"""torchtune: `tune run` with the recipe and config that fit the model, the nodes and the devices."""

from __future__ import annotations

from muster.strategies.frameworks.torchtune.torchtune_strategy import TorchTuneStrategy

__all__ = ["TorchTuneStrategy"]
