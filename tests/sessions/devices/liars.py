"""A trainer that says that it gives its memory up, and keeps it; a sampler that answers from its first weights."""

from __future__ import annotations

from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.trainer import TorchTrainer


class Trainer(TorchTrainer):
    def away(self):
        pass

    def back(self):
        self._shelf.own(self._base.model.parameters())


class Sampler(TransformersSampler):
    def load(self, weights, folder):
        super().load(weights, folder)
        self._weights[weights] = next(iter(self._weights.values()))

    def unload(self, weights):
        pass
