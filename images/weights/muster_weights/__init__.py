"""Weights by files between a trainer of TRL and a server of vLLM, verified before they are served.

`folders` writes a version, `readings` verifies it; `sampler` is what runs inside vLLM, `trainer` what runs beside TRL.
What both sides share needs the standard library only.
"""
