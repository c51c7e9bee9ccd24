"""What a Gateway knows of an engine: a trainer and a sampler, their arguments and what they answer.

An engine is synchronous and used by one thread. It raises `Refused` for what the caller asked wrongly, before anything
has changed; every other exception is a fault of the engine. Arrays are NumPy's, so that nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from muster.sessions.refusals import Refused

__all__ = [
    "Adam",
    "BrokenError",
    "Continuous",
    "Datum",
    "Lora",
    "Movable",
    "Outputs",
    "Refused",
    "Sampled",
    "Sampler",
    "Sampling",
    "Sequence_",
    "Sharing",
    "Step",
    "Trainer",
]


@dataclass(frozen=True, slots=True)
class Lora:
    """An adapter, as `tinker.types.LoraConfig` 0.38.0 has it.

    Attributes:
        rank: of each matrix; at least 1.
        seed: of the first values; None is one that the name of the model gives, so that a repeated call gives the same.
        train_mlp: whether MLP layers get one.
        train_attn: whether attention layers get one.
        train_unembed: whether the output layer gets one.
    """

    rank: int = 32
    seed: int | None = None
    train_mlp: bool = True
    train_attn: bool = True
    train_unembed: bool = True


@dataclass(frozen=True, slots=True)
class Adam:
    """One AdamW step, as `tinker.types.AdamParams` 0.38.0 has it; a `grad_clip_norm` of 0 or less does not clip."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


@dataclass(frozen=True, slots=True)
class Datum:
    """One example.

    Attributes:
        tokens: int64 [N], what the model reads.
        inputs: of the loss: `target_tokens` int64 [N] or [N, K], the others float32 of the same shape. Sparse rows are
            dense here, with 0 where they had nothing.
    """

    tokens: NDArray[np.int64]
    inputs: Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass, with a backward pass unless `forward_only`.

    Attributes:
        loss: name of a loss, such as `importance_sampling`.
        config: of the loss: numbers or texts by name.
        data: at least one.
        forward_only: whether gradients stay as they are.
    """

    loss: str
    config: Mapping[str, float | str]
    data: Sequence[Datum]
    forward_only: bool = False


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a step gives.

    Attributes:
        logprobs: float32 for each datum, of the shape of its `target_tokens`.
        metrics: by name and reduction, `loss:sum` among them.
    """

    logprobs: Sequence[NDArray[np.float32]]
    metrics: Mapping[str, float]


class Trainer(Protocol):
    """Holds models: adapters on one base, each with its gradients and its optimizer."""

    def create(self, model: str, lora: Lora) -> None:
        """Make a model; one of this name is replaced. Raises `Refused`."""

    def step(self, model: str, step: Step) -> Outputs:
        """Add the gradient of a step to those that the model has. Raises `Refused`, also before any gradient."""

    def optim(self, model: str, params: Adam) -> Mapping[str, float]:
        """Take the gradients into the weights and forget them; answers metrics, `grad_norm:mean` among them."""

    def save(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Write the adapter as vLLM and peft read it, and the optimizer beside it; `folder` appears whole or not."""

    def load(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Make a model of what `save` wrote, with the optimizer or a new one. Raises `Refused` for torn weights."""

    def unload(self, model: str) -> None:
        """Forget a model; nothing happens when there is none."""


@runtime_checkable
class Sharing(Trainer, Protocol):
    """A trainer that takes steps of several models together.

    Its `save` may run in a second thread while other models are at work.
    """

    def steps(self, work: Sequence[tuple[str, Step]]) -> Sequence[tuple[Outputs, str | None] | Refused]:
        """Add the gradients of steps, each of another model; one that is refused spoils none of the others.

        Returns:
            What each gives and its layout, which is None for one that shared nothing; a `Refused` in its place.
        """

    def again(self, model: str, step: Step, layout: str) -> Outputs:
        """Do what `steps` did with one of them, to the same bits on a CPU. Raises `Refused`, `ValueError`."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """One prompt.

    Attributes:
        weights: name under which `Sampler.load` has them; None is the base.
        prompt: int64 [N], at least one token.
        count: of sequences; 0 where only logprobs of the prompt are asked for.
        max_tokens: of each sequence; None is as many as the context has left.
        temperature: 0 is greedy.
        top_k: -1 or 0 is all.
        top_p: 1 is all.
        seed: the same seed gives the same sequences, whatever else is in the batch.
        stop: texts or token ids, whichever it holds; None is the tokenizer's end, empty is none.
        prompt_logprobs: whether they are asked for; `last_n` of them when set.
        topk_prompt: how many alternatives at each prompt position.
        topk_sampled: how many at each sampled one.
        targets: int64 [N-1, K], tokens whose logprobs are asked for, -1 for none.
    """

    weights: str | None
    prompt: NDArray[np.int64]
    count: int = 1
    max_tokens: int | None = None
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    seed: int | None = None
    stop: Sequence[str] | Sequence[int] | None = None
    prompt_logprobs: bool = False
    last_n: int | None = None
    topk_prompt: int = 0
    topk_sampled: int = 0
    targets: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Sequence_:  # noqa: N801 - `Sequence` is the collection
    """One sampled sequence; logprobs are those of the model at temperature 1, without top-k or top-p.

    Attributes:
        tokens: int64 [M], the stop token among them when one ended it.
        logprobs: float32 [M].
        ended: `stop` or `length`.
        topk: token ids int64 [M, k] and logprobs float32 [M, k], when asked for.
    """

    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    ended: Literal["stop", "length"]
    topk: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one prompt gives.

    Attributes:
        sequences: as many as were asked for.
        prompt_logprobs: float32 [N], NaN for the first and for those before the `last_n`; None when not asked for.
        topk_prompt: token ids and logprobs [N, k]; rows without are 0 and -99999.
        targets: float32 [N-1, K]; 0 where the target was -1.
    """

    sequences: Sequence[Sequence_] = field(default_factory=tuple)
    prompt_logprobs: NDArray[np.float32] | None = None
    topk_prompt: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None
    targets: NDArray[np.float32] | None = None


class Sampler(Protocol):
    """Holds weights by name, and samples of several at a time."""

    def load(self, weights: str, folder: Path) -> None:
        """Take an adapter that `Trainer.save` wrote; one of this name is replaced. Raises `Refused` for torn ones."""

    def unload(self, weights: str) -> None:
        """Forget weights; nothing happens when there are none."""

    def sample(self, requests: Sequence[Sampling]) -> Sequence[Sampled | Refused]:
        """Answer each prompt in its place; a `Refused` in the place of one that cannot be answered."""


@runtime_checkable
class Continuous(Sampler, Protocol):
    """A sampler that takes prompts while it answers others.

    Attributes:
        slots: how many weights it can hold beside the base.
    """

    slots: int

    def begin(self, ticket: int, request: Sampling) -> None:
        """Take a prompt under a number that is free. Raises `Refused`; the weights stay loaded until it has ended."""

    def advance(self) -> Mapping[int, Sampled | Refused]:
        """Compute for what has begun, about a token of each sequence, and return what has ended by its number.

        Raises:
            BrokenError: when it can compute no more.
            Exception: for any other fault; all that had begun is forgotten then.
        """

    def abandon(self, ticket: int) -> None:
        """Forget a prompt; nothing happens when there is none."""


@runtime_checkable
class Movable(Protocol):
    """An engine that can give up the memory of its device, and have it back with the same bits."""

    def away(self) -> None:
        """Move what it has on the device to the host."""

    def back(self) -> None:
        """Move it to the device again; also called once after the engine was made, when nothing is away."""


class BrokenError(Exception):
    """An engine that cannot go on: its process ends, and another one is started."""
