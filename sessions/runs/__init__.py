"""Runs: sessions of a tenant, their models, samplers and checkpoints."""
