"""Costs of weights by files: `python -m bench.weights`, by a Python that has torch and blake3, as that of vLLM."""
