"""A trainer that says that it gives its memory up, and keeps it."""

from __future__ import annotations

from sessions.engines.trainer import TorchTrainer


class Trainer(TorchTrainer):
    def away(self):
        pass

    def back(self):
        self._shelf.own(self._base.model.parameters())
