"""A sampler that lies about its version: it answers from the first weights that it was given, whatever is asked for."""

from __future__ import annotations

from tests.sessions import bigram


class Sampler(bigram.Sampler):
    def load(self, weights, folder):
        super().load(weights, folder)
        self._tables[weights] = self._tables[next(each for each in self._tables if each is not None)]

    def unload(self, weights):
        pass
