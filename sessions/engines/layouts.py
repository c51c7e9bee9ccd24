"""With which sizes a step shared its passes, so that it runs again to the same bits without the models beside it.

On a CPU, what a row gives depends on the sizes of the pass and on its place there, not on the values of other rows. A
step that runs again has rows of zeros where the other models had theirs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from muster.sessions.engines.adapters import Layers
from muster.sessions.engines.passes import Work
from muster.sessions.seam import Datum, Lora, Step

__all__ = ["company", "layouts"]


def layouts(works: Sequence[Work]) -> list[str | None]:
    """Return the layout of each step that shares passes, as JSON of about 6 characters a datum; None for one alone."""
    sharing = [work for work in works if not work.step.forward_only]
    sizes = [[list(astuple(work.adapter.lora)), [_size(work, place) for place in _places(work)]] for work in sharing]
    if len(sharing) < 2:
        return [None] * len(works)
    told = {id(work): json.dumps([place, sizes], separators=(",", ":")) for place, work in enumerate(sharing)}
    return [told.get(id(work)) for work in works]


def company(layout: str, work: Work, layers: Layers) -> list[Work]:
    """Return a step among others that have the sizes of a layout and compute nothing that is used.

    Raises:
        ValueError: for a layout that is not one of this step.
    """
    place, sizes = json.loads(layout)
    if json.loads(json.dumps(sizes[place][1])) != [_size(work, each) for each in _places(work)]:
        raise ValueError("the layout is not one of this step")
    return [work if number == place else _zeros(Lora(*lora), rows, layers) for number, (lora, rows) in enumerate(sizes)]


def _places(work: Work) -> range:
    return range(len(work.inputs))


def _size(work: Work, place: int) -> int | list[int]:
    """Return the number of tokens, with the number of targets of each where it is not one."""
    targets = work.inputs[place]["target_tokens"]
    return len(targets) if targets.ndim == 1 else list(targets.shape)


def _zeros(lora: Lora, rows: Sequence[int | list[int]], layers: Layers) -> Work:
    adapter = layers.fresh(lora, 0)
    for pair in adapter.pairs.values():
        for each in pair:
            each.requires_grad_(True)
    data = [_datum((size,) if isinstance(size, int) else tuple(size)) for size in rows]
    return Work(adapter, Step("cross_entropy", {}, data), [each.inputs for each in data], {})


def _datum(shape: tuple[int, ...]) -> Datum:
    inputs = {"target_tokens": np.zeros(shape, np.int64), "weights": np.zeros(shape, np.float32)}
    return Datum(np.zeros(shape[0], np.int64), inputs)
