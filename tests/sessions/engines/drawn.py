"""Data for engines, drawn by a seed."""

import numpy as np

from muster.sessions.seam import Datum, Step

VOCABULARY = 100


def datum(rng, length, *, loss="cross_entropy"):
    inputs = {"target_tokens": rng.integers(4, VOCABULARY, length)}
    if loss == "cross_entropy":
        return Datum(rng.integers(4, VOCABULARY, length), inputs | {"weights": _floats(rng.random(length))})
    inputs |= {"logprobs": _floats(-rng.random(length) * 5), "advantages": _floats(rng.normal(size=length))}
    if loss == "gspo":
        inputs["sequence_ratio_mask"] = _floats(rng.integers(0, 2, length))
    return Datum(rng.integers(4, VOCABULARY, length), inputs)


def step(seed=0, lengths=(5, 9, 3, 12), *, loss="cross_entropy", forward_only=False):
    rng = np.random.default_rng(seed)
    return Step(loss, {}, [datum(rng, length, loss=loss) for length in lengths], forward_only)


def _floats(values):
    return np.asarray(values, np.float32)
