"""Costs of the guard: `python -m bench.guard`; MUSTER_TRL_PYTHON names a Python that has torch, for the steps."""
