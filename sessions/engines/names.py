"""Engines by the names that a command line has for them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

__all__ = ["MOST_RANKS", "RANKS", "SAMPLERS", "WHOLE_TRAINER", "interpreted", "options", "sampler", "trainer"]

SAMPLERS = {
    "transformers": "muster.sessions.engines.sampler:TransformersSampler",
    "vllm": "muster.sessions.engines.vllm_sampler:VllmSampler",
    "whole": "muster.sessions.engines.whole:WholeSampler",
}
WHOLE_TRAINER = "muster.sessions.engines.whole:WholeTrainer"
"""What trains with `--full`."""
RANKS = "muster.sessions.engines.ranks:joined"
"""The same, on several ranks."""
MOST_RANKS = 64


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


def trainer(given: str | None, *, full: bool, ranks: int) -> tuple[str | None, tuple[str, ...]]:
    """Return the `MODULE:CLASS` of a trainer, None for the one of adapters, and its options.

    Raises:
        ValueError: for several ranks of what one process trains.
    """
    if ranks == 1:
        return given or (WHOLE_TRAINER if full else None), ()
    if not full or given:
        raise ValueError(f"--ranks: {ranks}: all weights are trained on several, and nothing else: pass --full alone")
    if not 2 <= ranks <= MOST_RANKS:
        raise ValueError(f"--ranks: {ranks}: pass 1 to {MOST_RANKS}")
    return RANKS, (f"ranks={ranks}",)


def options(given: Sequence[str], of: str = "sampler") -> tuple[str, ...]:
    """Return options of an engine as they are. Raises `ValueError` for one that has no value."""
    for each in given:
        if not each.partition("=")[0].isidentifier() or "=" not in each:
            raise ValueError(f"--{of}-option: {each[:80]}: pass KEY=VALUE, such as rank=32")
    return tuple(given)


def interpreted(of: str, name: str, python: str | None) -> None:
    """Raise `ValueError` where an engine of ours is to run in this interpreter, and it has no torch.

    Args:
        of: `trainer` or `sampler`.
        name: its `MODULE:CLASS`.
        python: the interpreter that was named for it; None is this one.
    """
    if python is None and name.startswith("muster.sessions.engines.") and importlib.util.find_spec("torch") is None:
        raise ValueError(
            f"--{of}-python: the {of} needs torch, which this interpreter has not: pass one that has it,"
            " or serve from the image of the engines"
        )
