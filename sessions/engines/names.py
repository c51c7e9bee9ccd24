"""Engines by the names that a command line has for them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["SAMPLERS", "WHOLE_TRAINER", "options", "sampler"]

SAMPLERS = {
    "transformers": "sessions.engines.sampler:TransformersSampler",
    "vllm": "sessions.engines.vllm_sampler:VllmSampler",
    "whole": "sessions.engines.whole:WholeSampler",
}
WHOLE_TRAINER = "sessions.engines.whole:WholeTrainer"
"""What trains with `--full`."""


def sampler(name: str | None, *, full: bool = False) -> str:
    """Return the `MODULE:CLASS` of a sampler, which may be named by that itself; None is the one for what is trained.

    Raises:
        ValueError: for a name that is not known, and for a sampler that does not read what is trained.
    """
    name = name or ("whole" if full else "transformers")
    if name in SAMPLERS and (name == "whole") != full:
        raise ValueError(
            f"--sampler: {name}: whole reads what --full trains, and the others read adapters: leave it out"
        )
    if name in SAMPLERS:
        return SAMPLERS[name]
    if ":" not in name:
        raise ValueError(f"--sampler: {name[:80]}: pass {', '.join(SAMPLERS)} or MODULE:CLASS")
    return name


def options(given: Sequence[str]) -> tuple[str, ...]:
    """Return options of a sampler as they are. Raises `ValueError` for one that has no value."""
    for each in given:
        if not each.partition("=")[0].isidentifier() or "=" not in each:
            raise ValueError(f"--sampler-option: {each[:80]}: pass KEY=VALUE, such as rank=32")
    return tuple(given)
