"""Whether the ranks of a training share gradients: each takes prints of a few parameters, and one compares them.

A print of a step has, for each of a few parameters: the weights before the step, the gradient, and the weights after
it, each at the same few places. Two ranks share gradients if they have the same weights before a step and the same
gradient. They train apart if they have the same weights before it, another gradient, and other weights after it. Ranks
that have different weights to begin with hold shards, stages or experts; nothing is said of them, except where no rank
sent anything to another between two steps.

Source: torch/optim/optimizer.py; torch/distributed/fsdp/_common_utils.py, `FSDP_FLATTENED`; torch/distributed/tensor,
`DTensor.placements`; deepspeed/moe/experts.py and megatron/core/transformer/moe, `allreduce`.
"""

from __future__ import annotations

import itertools
import math
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from muster_guard import calls

__all__ = ["Print", "Shared", "compare", "is_averaging", "judge", "sent", "take", "talk", "watch"]

_PARAMETERS, _PLACES = 8, 16
_PLAIN = ("Tensor", "Parameter", "FlatParameter")  # a subclass may be quantised, or wait for others
_NEAR, _FAR = 1e-3, 2e-2  # of the length of the longer gradient; bf16 has 4e-3 between two numbers
_OWNERS = ("deepspeed.runtime.zero", "megatron.core.optimizer.distrib_optimizer")
# Of torch, accelerate and torchft: ranks train apart for some steps, and then take the mean of their weights.
_AVERAGING = ("ModelAverager", "LocalSGD", "DiLoCo")
_messages = _averagers = 0


class Print(NamedTuple):
    """What one rank knows of one parameter at one step.

    Attributes:
        key: parameters of two ranks are compared if they have the same key: place in the optimizer, shape, and shard.
        before: a checksum of the weights before the step; None where all are the same number, as ones and zeros are.
        gradient: numbers of the gradient; empty for none.
        after: a checksum of the weights after the step.
        sharded: whether the parameter says itself that other ranks have other parts of it.
    """

    key: str
    before: int | None
    gradient: list[float]
    after: int
    sharded: bool


class Shared(NamedTuple):
    """What prints of all ranks say.

    Attributes:
        word: `shared`, `not-shared` or `sharded`; None where it cannot be told.
        apart: two ranks that train apart.
    """

    word: str | None
    apart: tuple[int, int] | None = None


class Taken:
    """The prints of a step that runs: `finish` after it completes them."""

    def __init__(self, chosen: list[Any], keys: list[str], sharded: list[bool]) -> None:
        self._chosen, self._keys, self._sharded = chosen, keys, sharded
        numbers = _numbers([*chosen, *(each.grad for each in chosen)])
        self._before, self._gradients = numbers[: len(chosen)], numbers[len(chosen) :]

    def finish(self) -> list[Print]:
        """Return the prints, with the weights as they are now."""
        rows = zip(self._keys, self._before, self._gradients, _numbers(self._chosen), self._sharded)  # noqa: B905  # Python 3.8
        return [
            Print(key, None if min(before) == max(before) else _sum(before), gradient, _sum(after), sharded)
            for key, before, gradient, after, sharded in rows
        ]


def take(optimizer: Any) -> Taken | None:
    """Take prints of an optimizer whose step begins; None where it has no parameter of which one can be taken.

    It reads a few numbers of each of a few parameters, all in one copy, and changes nothing.
    """
    torch = sys.modules["torch"]
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return None  # a copy to the host would break the graph
    everything = [each for group in optimizer.param_groups for each in group["params"]]
    many = len(everything)
    usable = [(at, each) for at, each in enumerate(everything) if _is_usable(torch, each)]
    usable = [(at, each) for at, each in usable if each.device == usable[0][1].device]
    step = max(1, (len(usable) - 1) / (_PARAMETERS - 1))
    chosen = [usable[round(at * step)] for at in range(min(len(usable), _PARAMETERS))]
    if not chosen:
        return None
    owned = _is_owned()
    shards = [_shard(each) for _, each in chosen]
    keys = [
        f"{at}/{many} {tuple(each.shape)} {shard}"
        for (at, each), shard in zip(chosen, shards)  # noqa: B905  # Python 3.8
    ]
    sharded = [owned or bool(shard) or hasattr(each, "_fsdp_flattened") for (_, each), shard in zip(chosen, shards)]  # noqa: B905  # Python 3.8
    return Taken([each for _, each in chosen], keys, sharded)


def _is_usable(torch: Any, tensor: Any) -> bool:
    """Whether a print can be taken of a parameter and its gradient, and all ranks of a replica should have the same."""
    if getattr(tensor, "allreduce", True) is False or getattr(tensor, "skip_allreduce", False):
        return False  # an expert, of which each rank has another
    pair = (tensor, tensor.grad)
    if tensor.grad is None or getattr(tensor, "placements", None) != getattr(tensor.grad, "placements", None):
        return False
    if hasattr(tensor, "placements"):
        if any(each.is_partial() for each in tensor.placements):
            return False
        pair = (tensor.detach().to_local(), tensor.grad.detach().to_local())
    return all(
        type(each).__name__ in _PLAIN
        and each.layout == torch.strided
        and each.is_floating_point()
        and each.is_contiguous()
        and each.numel() > 1
        for each in pair
    )


def _shard(tensor: Any) -> str:
    """Return which part of a parameter this rank has, by the mesh of a DTensor; empty where it has all of it."""
    if not hasattr(tensor, "placements"):
        return ""
    places = tensor.device_mesh.get_coordinate() or ()
    return " ".join(f"{kind}@{at}" for kind, at in zip(tensor.placements, places) if kind.is_shard())  # noqa: B905  # Python 3.8


def _is_owned() -> bool:
    """Whether the step is called by a library that gave each rank a part of the parameters, and no sign on them."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # documented; `inspect` reads source files
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_OWNERS):
            return True
        frame = frame.f_back
    return False


def _numbers(tensors: Iterable[Any]) -> list[list[float]]:
    """Return numbers of each tensor, at places that are the same for two tensors of one shape."""
    torch = sys.modules["torch"]
    parts = []
    for tensor in tensors:
        flat = (tensor.detach().to_local() if hasattr(tensor, "placements") else tensor.detach()).view(-1)
        parts.append(flat[:: max(1, flat.numel() // _PLACES)][:_PLACES].float())
    numbers = iter(torch.cat(parts).tolist())
    return [list(itertools.islice(numbers, part.numel())) for part in parts]


def _sum(numbers: Sequence[float]) -> int:
    return zlib.crc32(struct.pack(f"{len(numbers)}d", *numbers))


def watch(module: Any) -> None:
    """Note each object of this process that takes the mean of weights, as local SGD does."""
    for name in filter(module.__dict__.__contains__, _AVERAGING):
        calls.after(getattr(module, name), "__init__", lambda *_: _average())


def _average() -> None:
    global _averagers  # noqa: PLW0603  # a number of the process
    _averagers += 1


def is_averaging() -> bool:
    """Whether ranks may train apart until they take the mean of their weights."""
    return _averagers > 0


def talk() -> None:
    """Count a message of one rank to another."""
    global _messages  # noqa: PLW0603  # a number of the process
    _messages += 1


def sent(module: Any) -> int | None:
    """Return how many collectives and messages all groups of this process have had; None where one does not count them.

    Args:
        module: `torch.distributed.distributed_c10d`.
    """
    try:
        counts = [each._get_sequence_number_for_group() for each in module._world.pg_map]  # noqa: SLF001  # no public way
        return _messages + sum(map(int, counts))
    except (AttributeError, RuntimeError):
        return None


def compare(one: Sequence[float], other: Sequence[float]) -> str:
    """Compare two gradients: `near`, `far`, `none` where both are zero, or `unclear`."""
    if not all(map(math.isfinite, (*one, *other))) or len(one) != len(other):
        return "unclear"
    longest = max(math.hypot(*one), math.hypot(*other))
    if longest == 0:
        return "none"
    distance = math.hypot(*(left - right for left, right in zip(one, other))) / longest  # noqa: B905  # Python 3.8
    return "near" if distance < _NEAR else "far" if distance > _FAR else "unclear"


def judge(prints: dict[int, list[Print]], *, size: int, moved: bool | None) -> Shared:
    """Judge what the ranks say of one step.

    Args:
        prints: by rank.
        size: number of ranks of the training.
        moved: whether ranks sent anything between the step before and this one; None where that is not known.
    """
    replicas: dict[tuple[str, int], list[tuple[int, Print]]] = {}
    holders: Counter[str] = Counter()
    for rank in sorted(prints):
        for each in prints[rank]:
            holders[each.key] += each.before is not None
            if each.before is not None:
                replicas.setdefault((each.key, each.before), []).append((rank, each))
    agreed, apart = _compared(replicas.values())
    if apart:
        return Shared("not-shared", apart)
    sharded = [each.sharded for of in prints.values() for each in of]
    if sharded and all(sharded) and len(prints) == size:
        return Shared("sharded")
    alone = [(key, *of[0]) for (key, _), of in replicas.items() if len(of) == 1 and holders[key] > 1]
    if moved is False and not agreed and not any(sharded):
        firsts: dict[str, tuple[int, Print]] = {}
        for key, rank, each in alone:
            first, model = firsts.setdefault(key, (rank, each))
            if compare(model.gradient, each.gradient) == "far":
                return Shared("not-shared", (first, rank))
    return Shared("shared" if moved and not alone and len(agreed) == size else None)


def _compared(replicas: Iterable[list[tuple[int, Print]]]) -> tuple[set[int], tuple[int, int] | None]:
    """Return the ranks that agree with others, and two that train apart."""
    agreed: set[int] = set()
    for (first, model), *others in replicas:
        for rank, each in others:
            found = compare(model.gradient, each.gradient)
            if found == "far" and model.after != each.after:
                return agreed, (first, rank)
            if found == "near":
                agreed |= {first, rank}
    return agreed, None
