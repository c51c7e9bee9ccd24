"""All weights of one model, divided over ranks: FSDP2 of torch 2.13, each rank with its part of the rows of a step.

Every rank is called with the same arguments in the same order. Gradients are sums over ranks, as they are over rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from muster.sessions.engines.activations import Scorer
from muster.sessions.engines.adam import AdamW
from muster.sessions.engines.batches import packed
from muster.sessions.engines.passes import Part, Passes, Work, added
from muster.sessions.engines.whole import WholeTrainer, named, summable

__all__ = ["ShardedTrainer", "shares"]


class ShardedTrainer(WholeTrainer):
    """What one rank has of a `WholeTrainer`.

    Args:
        base: folder of the base model, as `from_pretrained` reads it.
        mesh: of all ranks.
        group: of all ranks, for objects and numbers on the CPU.
        budget: tokens of one pass of one rank, padding included.
        device: of this rank.
        dtype: of the weights; those of 16 bits have masters, sums of gradients and moments in float32.
        keep: tokens of one pass in which all activations are kept, as of `TorchTrainer`.
    """

    def __init__(  # noqa: PLR0913  # of which only two are needed
        self,
        base: Path,
        *,
        mesh: DeviceMesh,
        group: dist.ProcessGroup,
        budget: int = 4096,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        keep: int | None = None,
    ) -> None:
        super().__init__(base, budget=budget, dtype=dtype, keep=keep)
        self._group = group
        self._passes = _Passes(self, budget)
        _shard(self._passes.scorer, mesh)
        self._base.device = torch.device(device)
        self._weights = named(self._base.model)

    def files(self, model: str, *, optimizer: bool) -> dict[str, Mapping[str, Tensor]]:
        """Return what `save` writes, on the first rank; nothing on the others."""
        found = super().files(model, optimizer=optimizer)
        first = dist.get_rank(self._group) == 0
        whole = {file: {name: _whole(each) for name, each in some.items()} for file, some in found.items()}
        return dict(whole) if first else {}

    @property
    def parts(self) -> Sequence[DTensor]:
        """The weights, in the order of names."""
        return [_sharded(each) for each in self._weights.values()]

    @property
    def group(self) -> dist.ProcessGroup:
        """All ranks."""
        return self._group

    def _fresh(self) -> AdamW:
        return _AdamW({name: _sharded(each) for name, each in self._weights.items()}, self._group)

    def _take(self, found: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, each in self._weights.items():
                part = _sharded(each)
                _local(part).copy_(_part(found[name].to(part.dtype), part))

    def _norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return _norm(gradients, self._group)


class _AdamW(AdamW):
    """The optimizer of the weights of one rank, whose state goes to files as that of one rank alone does."""

    def __init__(self, whole: Mapping[str, DTensor], group: dist.ProcessGroup) -> None:
        super().__init__({name: _local(each) for name, each in whole.items()})
        self._whole, self._group = whole, group

    def state(self) -> dict[str, Tensor]:
        """Return the state by the name of the weight and of the part, as tensors of all ranks."""
        return {key: self._joined(key, each) for key, each in super().state().items()}

    def _joined(self, key: str, each: Tensor) -> Tensor:
        name, _, part = key.rpartition(".")
        like = self._whole[name]
        if part == "step":
            return each
        return DTensor.from_local(
            each, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )

    def _shape(self, key: str) -> tuple[int, ...]:
        name, _, part = key.rpartition(".")
        return () if part == "step" else tuple(self._whole[name].shape)

    def _placed(self, tensor: Tensor, name: str) -> Tensor:
        return _part(tensor, self._whole[name]).clone()

    def _norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return _norm(gradients, self._group)

    def _largest(self, tensors: Sequence[Tensor]) -> float:
        found = torch.tensor(super()._largest(tensors), dtype=torch.float64)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self._group)
        return float(found)


class _Passes(Passes):
    """Passes of one rank; all ranks run the same number, because each pass gathers the weights of all."""

    def __init__(self, trainer: ShardedTrainer, budget: int) -> None:
        super().__init__(trainer._base, trainer._layers, budget)  # noqa: SLF001  # of one trainer
        self._trainer = trainer

    def run(self, works: Sequence[Work]) -> None:
        """Fill in what a step gives, on each rank."""
        (work,) = works
        group = self._trainer.group
        lengths = [len(datum.tokens) for datum in work.step.data]
        mine = shares(lengths, dist.get_world_size(group), self.budget)[dist.get_rank(group)]
        for places in mine:
            self.compute([Part(work, places)])
        _gather(work, group)

    def compute(self, parts: Sequence[Part]) -> None:
        """Compute one pass; one without places takes part in what the other ranks do."""
        (part,) = parts
        with torch.set_grad_enabled(not part.work.step.forward_only):
            loss = self._lost(part)
            if loss.requires_grad:
                loss.backward()
                part.work.gradients = added(part.work.gradients, [_gradient(each) for each in self._trainer.parts])

    def _lost(self, part: Part) -> Tensor:
        if part.places:
            return self._loss(part, self._logprobs([(part.work, place) for place in sorted(part.places)]))
        idle = torch.zeros((1, 1), dtype=torch.int64, device=self._base.device)
        nothing: Tensor = self.scorer(idle, idle[..., None]).sum() * 0
        return nothing


def shares(lengths: Sequence[int], ranks: int, budget: int) -> list[list[list[int]]]:
    """Divide sequences, by their places, into passes of each rank; all have the same number, the last may be empty."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    taken = [order[rank::ranks] for rank in range(ranks)]
    passes = [
        [sorted(mine[each] for each in some) for some in packed([lengths[place] for place in mine], budget)]
        for mine in taken
    ]
    most = max(map(len, passes))
    return [each + [[]] * (most - len(each)) for each in passes]


def _gather(work: Work, group: dist.ProcessGroup) -> None:
    """Have on each rank what all of them computed."""
    own = (work.logprobs, [float(each) for each in work.losses])
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, own, group=group)
    for logprobs, _ in found:
        work.logprobs.update(logprobs)
    work.losses = [torch.tensor(loss, dtype=torch.float64) for _, losses in found for loss in losses]


def _shard(scorer: Scorer, mesh: DeviceMesh) -> None:
    """Divide each layer by itself, so that one of them is whole at a time, and then the rest."""
    model = scorer.model
    layers = set(model._no_split_modules or ())  # noqa: SLF001  # what transformers calls a layer
    sums = MixedPrecisionPolicy(reduce_dtype=torch.float32 if model.dtype.itemsize < 4 else None)
    for each in [*(each for each in model.modules() if type(each).__name__ in layers), scorer]:
        fully_shard(each, mesh=mesh, reshard_after_forward=True, mp_policy=sums)
    for each in scorer.modules():
        if isinstance(each, FSDPModule):
            each.set_gradient_divide_factor(1.0)
            each.set_force_sum_reduction_for_comms(True)  # gloo knows no other one


def _norm(gradients: Sequence[Tensor], group: dist.ProcessGroup) -> Tensor:
    """Return the norm of gradients of which each rank has a part."""
    own = torch.nn.utils.get_total_norm(gradients)
    square = own.double().cpu() ** 2
    dist.all_reduce(square, group=group)
    return square.sqrt().to(own.device, own.dtype)


def _sharded(tensor: Tensor) -> DTensor:
    if not isinstance(tensor, DTensor):
        raise TypeError("the weights are not divided")
    return tensor


def _local(tensor: DTensor) -> Tensor:
    return tensor.detach().to_local()


def _part(whole: Tensor, like: DTensor) -> Tensor:
    """Return what this rank has of a tensor that each rank has whole."""
    whole = whole.to(like.device)
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None).to_local()


def _whole(tensor: Tensor) -> Tensor:
    return (tensor.detach().full_tensor() if isinstance(tensor, DTensor) else tensor.detach()).cpu()


def _gradient(weight: DTensor) -> Tensor:
    gradient, weight.grad = weight.grad, None
    return summable(torch.zeros_like(_local(weight)) if gradient is None else _local(_sharded(gradient)))
