"""Rows as TRL 1.16 logs them."""

from __future__ import annotations

__all__ = ["asynchronous", "synchronous"]


def synchronous(step, **more):
    """A row of GRPOTrainer."""
    return {
        "loss": 0.01, "reward": step / 100, "reward_std": 0.1, "num_tokens": 100.0 * step, "step_time": 0.5,
        "sampling/sampling_logp_difference/mean": 1e-7, "sampling/importance_sampling_ratio/mean": 1.0,
        "epoch": 0.1, "step": step, **more,
    }  # fmt: skip


def asynchronous(step, **more):
    """A row of AsyncGRPOTrainer."""
    return {
        "loss": 0.01, "reward": step / 100, "ratio": 0.9999, "sample/staleness_mean": 0.5, "perf/weight_sync_s": 0.25,
        "perf/trained_tok_s_wall_clock": 800.0, "step": step, **more,
    }  # fmt: skip
