"""Rollouts for TRL's AsyncGRPOTrainer that start only when the trainer will still want them."""
