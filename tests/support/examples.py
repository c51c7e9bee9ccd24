"""The same examples in each run."""

from __future__ import annotations

from hypothesis.internal.conjecture import providers

__all__ = ["forget_sources"]


def forget_sources() -> None:
    """Draw no literals of our own modules.

    Hypothesis mixes in the numbers and texts of each module of the project that is loaded, also with `derandomize`;
    which those are depends on the order of tests and on what a change wrote, and no setting turns it off
    (`_get_local_constants` of hypothesis 6.170).
    """
    constants = providers._local_constants
    providers._get_local_constants = lambda: constants
