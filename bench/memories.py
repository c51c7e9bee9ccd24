"""What the product remembers from one job to the next, and how a measurement begins without it."""

from __future__ import annotations

import functools
import gc

__all__ = ["forget"]


def forget() -> None:
    """Empty what is remembered of texts and documents: the first job with one is the job that costs."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper):  # noqa: SLF001  # it has no other name
            each.cache_clear()
    gc.collect()
