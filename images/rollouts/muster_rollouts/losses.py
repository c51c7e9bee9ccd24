"""The loss of Dr. GRPO for TRL's AsyncGRPOTrainer, which divides by the number of tokens."""

from __future__ import annotations

from typing import Any

from trl.experimental.async_grpo import AsyncGRPOTrainer

__all__ = ["ConstantDivisorTrainer"]


class ConstantDivisorTrainer(AsyncGRPOTrainer):  # type: ignore[misc]  # TRL has no types
    """Divides the sum over tokens by samples x max_completion_length, so that long answers do not weigh less.

    Dr. GRPO (arXiv 2503.20783) is this and advantages that are not scaled. TRL's loss is linear in one over the number
    of tokens of a batch, for which the constant is put in here. Source: trl 1.16.0, `AsyncGRPOTrainer.compute_loss`.
    """

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of one batch."""
        if self.aux_loss_enabled:
            raise ValueError("loss_type: dr_grpo would scale the loss of the router too; add --router_aux_loss_coef 0")
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        tokens, forwarded, length = (
            float(inputs[name][0]) for name in ("global_n_tokens", "global_n_forward_tokens", "mean_seq_len")
        )
        return loss * (max(tokens, 1.0) / (forwarded / length * self.args.max_completion_length))
