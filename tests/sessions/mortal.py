"""A trainer whose process ends at once when it is asked for the last token of its vocabulary."""

from __future__ import annotations

import os
import signal

from tests.sessions import bigram


class Trainer(bigram.Trainer):
    def step(self, model, step):
        if any((datum.inputs["target_tokens"] == bigram.SIZE - 1).any() for datum in step.data):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(model, step)
