"""Costs of RL sessions: `python -m bench.sessions` in their environment. It prints ratios with their spread."""
