"""Trainers whose process ends: at once when asked for the last token of its vocabulary, or at its start."""

from __future__ import annotations

import os
import signal

from muster.sessions.refusals import Refused
from tests.sessions import bigram


class Trainer(bigram.Trainer):
    def step(self, model, step):
        if any((datum.inputs["target_tokens"] == bigram.SIZE - 1).any() for datum in step.data):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(model, step)


class Whim(bigram.Trainer):
    """Cannot be made while there is a file `no` in the folder of its base."""

    def __init__(self, base):
        if (base / "no").exists():
            raise ValueError("no")
        super().__init__(base)


class Choosy(bigram.Trainer):
    """Makes no model of the seed 13."""

    def create(self, model, lora):
        if lora.seed == 13:
            raise Refused("lora_config.seed: 13: is not done here")
        super().create(model, lora)


class Never(bigram.Trainer):
    """Fails at its start, through no fault of what it was given."""

    def __init__(self, _base):
        raise RuntimeError("no memory")
