"""Platforms: where engines run."""
