"""What TRL itself finds of the sampler's log probabilities, which it only logs, made into a verdict.

Source: trl 1.16.0 trainer/grpo_trainer.py, `sampling/sampling_logp_difference/mean`: 0.0 with the right weights in
float32, 0.06 to 0.19 where the output layer was an old one.
"""

from __future__ import annotations

from typing import Any

from muster_weights.trainer import opening
from muster_weights.trainer.verdicts import Watch, bound_of

__all__ = ["watch"]

_NAME = "sampling/sampling_logp_difference/mean"


def watch(module: Any) -> None:
    """Add a callback to all trainers of `transformers.trainer`, by its own list of default callbacks."""
    module.DEFAULT_CALLBACKS = [*module.DEFAULT_CALLBACKS, _callback(module.TrainerCallback)]


def _callback(base: Any) -> Any:
    class Differences(base):  # type: ignore[misc]  # transformers is untyped here
        """Ends a training when TRL's difference was too large several times in a row."""

        _watch: Watch | None = None

        def on_log(self, *_: Any, logs: Any = None, **__: Any) -> None:
            """Look at what is logged."""
            value, sync = (logs or {}).get(_NAME), opening.newest()
            if value is None or sync is None:
                return
            if self._watch is None:
                bound = sync.settings.bound or bound_of(sync.dtype)
                self._watch = Watch("TRL's sampling_logp_difference", bound, sync.settings.patience)
            verdict = self._watch.seen(float(value))
            if verdict is not None:
                opening.end(verdict)

    return Differences
