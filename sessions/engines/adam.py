"""AdamW by the numbers of each step: torch's own, with a state that goes to files and back.

Weights of 16 bits have masters of float32, which the optimizer changes and from which the weights are rounded. Without
them a step that is smaller than half of a weight's last bit changes nothing: at a learning rate of 1e-5 that is 85 % of
the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from muster.sessions.engines.reach import Reach
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam

__all__ = ["AdamW", "checked"]

_PARTS = ("step", "exp_avg", "exp_avg_sq")
_MASTER = "master"
_Kept: TypeAlias = tuple[list[Tensor], dict[Tensor, dict[str, Tensor]]]


def checked(params: Adam) -> Adam:
    """Return numbers that a step can use. Raises `Refused` for others."""
    for name in ("learning_rate", "eps", "weight_decay"):
        _number(name, getattr(params, name), math.inf)
    for name in ("beta1", "beta2"):
        _number(name, getattr(params, name), 1)
    if not math.isfinite(params.grad_clip_norm):
        raise Refused(f"adam_params.grad_clip_norm: {params.grad_clip_norm}: pass a finite number, 0 to not clip")
    return params


class AdamW:
    """The optimizer of one model.

    Args:
        named: what it changes, by name; it keeps their order.
    """

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        self._weights = dict(named)
        self._has_masters = any(each.dtype.itemsize < 4 for each in named.values())
        self._named = {name: _float(each) for name, each in named.items()} if self._has_masters else self._weights
        self._is_read = not self._has_masters  # masters are read before the first step, for the same reason as reach
        # One pass over each tensor, where `foreach` makes a dozen, each of which costs an adapter its layers, and which
        # on a GPU raises for numbers that are too large for the type of a weight.
        fused = all(each.device.type in {"cpu", "cuda"} and each.is_contiguous() for each in named.values())
        self._is_fused = fused
        self._torch = torch.optim.AdamW(list(self._named.values()), foreach=not fused, fused=fused)
        self._most = float(min(torch.finfo(each.dtype).max for each in named.values()))
        self._reach: Reach | None = None  # measured before the first step, because weights may be set until then

    def step(self, gradients: Sequence[Tensor], params: Adam) -> float:
        """Take gradients, in the order of the names, into the weights; answer their global norm before clipping.

        Raises:
            Refused: for gradients whose norm is not finite, and a step after which weights would not be; nothing has
                changed then.
        """
        self._read()
        gradients = [each.contiguous() for each in gradients]  # torch 2.13 takes others in a wrong order on a CPU
        norm = self._norm(gradients)
        if not torch.isfinite(norm):
            raise Refused("optim_step: the gradients overflowed: load a checkpoint, and send smaller losses")
        reach = (self._reach or self._measured()).after(float(norm), params)
        kept = None if reach.fits(self._most) else self._copied()
        try:
            self._take(gradients, norm, params)
        finally:
            self._torch.zero_grad()
        self._reach = reach if kept is None else self._looked(kept)
        return float(norm)

    def state(self) -> dict[str, Tensor]:
        """Return the state by the name of the weight and of the part; nothing before the first step."""
        taken = {name: each for name, each in self._named.items() if each in self._torch.state}
        moments = {f"{name}.{part}": self._torch.state[each][part] for name, each in taken.items() for part in _PARTS}
        return moments | ({f"{name}.{_MASTER}": each for name, each in taken.items()} if self._has_masters else {})

    def tensors(self) -> list[Tensor]:
        """Return what it holds beside the weights, for whoever moves its memory."""
        parts = [part for state in self._torch.state.values() for part in state.values()]
        return [*parts, *self._named.values()] if self._has_masters else parts

    def restore(self, state: Mapping[str, Tensor], source: str) -> None:
        """Take what `state` returned. Raises `Refused` for the state of another model."""
        if state and {key: self._shape(key) for key in self._keys()} != {k: tuple(v.shape) for k, v in state.items()}:
            raise Refused(f"weights: {source}: the optimizer does not fit its weights: load without the optimizer")
        self._reach = None
        for name, each in self._named.items() if state else ():
            found = {part: state[f"{name}.{part}"] for part in _PARTS}
            placed = {part: self._placed(value, name) for part, value in found.items() if part != "step"}
            # Torch counts steps on the host, but where one pass does all: there beside the weight.
            counted = found["step"].to(each.device if self._is_fused else "cpu", copy=True)
            self._torch.state[each] = {"step": counted, **placed}
        if state and self._has_masters:
            for name, each in self._named.items():
                each.copy_(self._placed(state[f"{name}.{_MASTER}"], name))
            self._is_read = True

    def _read(self) -> None:
        """Have masters begin with the weights."""
        if not self._is_read:
            for name, each in self._named.items():
                each.copy_(self._weights[name].detach())
            self._is_read = True

    def _write(self) -> None:
        """Round the masters to the weights."""
        if self._has_masters:
            with torch.no_grad():
                for name, each in self._weights.items():
                    each.copy_(self._named[name])

    def _take(self, gradients: Sequence[Tensor], norm: Tensor, params: Adam) -> None:
        for each, gradient in zip(self._named.values(), gradients, strict=True):
            each.grad = gradient
        if params.grad_clip_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self._named.values(), params.grad_clip_norm, norm)
        self._torch.param_groups[0].update(
            lr=params.learning_rate,
            betas=(params.beta1, params.beta2),
            eps=params.eps,
            weight_decay=params.weight_decay,
        )
        self._torch.step()
        self._write()

    def _looked(self, kept: _Kept) -> Reach:
        """Return what weights and moments are at most; take a step back after which some are not numbers."""
        measured = self._measured()
        seconds = [state["exp_avg_sq"] for state in self._torch.state.values()]
        if not measured.is_finite or not math.isfinite(self._largest(seconds)):
            self._return(kept)
            raise Refused(
                "optim_step: the weights would overflow: pass a smaller learning_rate or weight_decay, or a larger eps"
            )
        return measured

    def _measured(self) -> Reach:
        firsts = [state["exp_avg"] for state in self._torch.state.values()]
        return Reach(self._largest([each.detach() for each in self._weights.values()]), self._largest(firsts))

    def _largest(self, tensors: Sequence[Tensor]) -> float:
        """Return the largest value without its sign, infinity where one is not a number, and 0 of nothing."""
        some = [each for each in tensors if each.numel()]  # a rank may have no part of one
        found = float(torch.nn.utils.get_total_norm(some, math.inf))
        return math.inf if math.isnan(found) else found

    def _copied(self) -> _Kept:
        states = {each: {part: value.clone() for part, value in of.items()} for each, of in self._torch.state.items()}
        return [each.detach().clone() for each in self._named.values()], states

    def _return(self, kept: _Kept) -> None:
        weights, states = kept
        with torch.no_grad():
            for each, before in zip(self._named.values(), weights, strict=True):
                each.copy_(before)
        self._write()
        self._torch.state.clear()
        self._torch.state.update(states)

    def _keys(self) -> list[str]:
        parts = (*_PARTS, _MASTER) if self._has_masters else _PARTS
        return [f"{name}.{part}" for name in self._named for part in parts]

    def _shape(self, key: str) -> tuple[int, ...]:
        name, _, part = key.rpartition(".")
        return () if part == "step" else tuple(self._named[name].shape)

    def _norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return torch.nn.utils.get_total_norm(gradients)

    def _placed(self, tensor: Tensor, name: str) -> Tensor:
        return tensor.to(self._named[name].device)


def _float(weight: Tensor) -> Tensor:
    return torch.empty_like(weight.detach(), dtype=torch.float32, memory_format=torch.contiguous_format)


def _number(name: str, value: float, below: float) -> None:
    if not 0 <= value < below:
        raise Refused(f"adam_params.{name}: {value}: pass a number from 0{'' if below == math.inf else ' to below 1'}")
