"""Whether a request has what its loss reads.

Nothing here imports torch, so a Gateway may ask before any engine runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.sessions.losses.table import LOSSES, UNPUBLISHED, Loss
from muster.sessions.refusals import Refused

__all__ = ["config_of", "inputs_of", "loss_named"]

_Array: TypeAlias = NDArray[np.generic]
_SHOWN = 40


def loss_named(name: str) -> Loss:
    """Return the loss of a name. Raises `Refused` for another name, and for a loss whose formula is not published."""
    if name in UNPUBLISHED:
        raise Refused(f"loss_fn: {name}: its formula is not published: pass loss_fn='importance_sampling'")
    if name == "custom":
        raise Refused("loss_fn: custom: is not computed here: pass a function to forward_backward_custom")
    if name not in LOSSES:
        raise Refused(f"loss_fn: {_short(name)}: is not a loss: pass one of {', '.join(LOSSES)}")
    return LOSSES[name]


def config_of(name: str, given: Mapping[str, float | str]) -> dict[str, float]:
    """Return the numbers of a loss, defaults included. Raises `Refused` for an unknown key and another type."""
    known = loss_named(name).config
    for key in given:
        if key not in known:
            raise Refused(f"loss_fn_config: {_short(key)}: {name} does not read it: {_instead(known)}")
    config = {key: _number(key, given.get(key, default)) for key, default in known.items()}
    if config.get("clip_low_threshold", 0) > config.get("clip_high_threshold", 0):
        raise Refused("loss_fn_config: clip_low_threshold: is above clip_high_threshold: swap the two")
    return config


def inputs_of(name: str, given: Mapping[str, _Array], length: int) -> dict[str, _Array]:
    """Return what a loss reads of one datum: `target_tokens` int64 [N] or [N, K], the others float32 of the same shape.

    Args:
        name: of the loss.
        given: `loss_fn_inputs`.
        length: N, the number of tokens that the model reads.

    Raises:
        Refused: for an input that is missing, unknown, of another shape or not finite.
    """
    loss = loss_named(name)
    wanted = ("target_tokens", *loss.inputs)
    _names(name, wanted, given)
    targets = np.asarray(given["target_tokens"])
    _targets(name, targets, length, wide=loss.wide)
    rest = {key: _floats(key, given[key], targets.shape) for key in loss.inputs}
    return {"target_tokens": targets.astype(np.int64), **rest}


def _names(name: str, wanted: tuple[str, ...], given: Mapping[str, _Array]) -> None:
    for key in wanted:
        if key not in given:
            raise Refused(f"loss_fn_inputs: {key}: is missing: {name} reads {', '.join(wanted)}")
    for key in given:
        if key not in wanted:
            raise Refused(f"loss_fn_inputs: {_short(key)}: {name} does not read it: leave it out")


def _targets(name: str, targets: _Array, length: int, *, wide: bool) -> None:
    if targets.dtype.kind not in "iu":
        raise Refused(f"loss_fn_inputs: target_tokens: holds {targets.dtype}: pass integers")
    if targets.ndim == 2 and not wide:
        raise Refused(f"loss_fn_inputs: target_tokens: {name} reads one target for each token: pass shape [{length}]")
    if targets.ndim not in {1, 2} or targets.shape[0] != length or targets.size == 0:
        shape = list(targets.shape)
        raise Refused(f"loss_fn_inputs: target_tokens: has shape {shape}: pass a row for each of the {length} tokens")


def _floats(key: str, given: _Array, shape: tuple[int, ...]) -> _Array:
    values = np.asarray(given)
    if values.dtype.kind not in "fiu":
        raise Refused(f"loss_fn_inputs: {key}: holds {values.dtype}: pass float32")
    if values.shape != shape:
        raise Refused(
            f"loss_fn_inputs: {key}: has shape {list(values.shape)}: pass the shape of target_tokens, {list(shape)}"
        )
    if not np.isfinite(values).all():
        raise Refused(f"loss_fn_inputs: {key}: holds NaN or an infinity: pass finite numbers")
    return values.astype(np.float32)


def _number(key: str, value: float | str) -> float:
    if isinstance(value, (bool, str)) or not math.isfinite(value):
        raise Refused(f"loss_fn_config: {key}: {_short(str(value))}: pass a finite number")
    return float(value)


def _instead(known: Mapping[str, float]) -> str:
    return f"pass only {', '.join(known)}" if known else "leave it out"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
