"""After each sync, log probabilities of a fixed text: the trainer's against those of the sampler.

Source: trl 1.16.0, `VLLMGeneration.sync_weights` and `AsyncGRPOTrainer._sync_weight`.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from muster_weights.trainer import opening
from muster_weights.trainer.syncs import Sync
from muster_weights.trainer.verdicts import Watch, bound_of, unshown

__all__ = ["AdapterProbe", "Probe", "is_sharded", "tokens_of", "watch_async_trainer", "watch_generation"]

_TEXT = "A sampler serves what its trainer trained: 3 plus 4 is 7, and the owl says hello to you."
_LONGEST = 64
_SHARE = 0.5
_STRIDE = 4  # places of the text that a sampler with adapters is asked about, each with a prompt of its own


def watch_generation(module: Any) -> None:
    """Probe after each sync of `trl.generation.vllm_generation.VLLMGeneration` in server mode."""
    _after(module.VLLMGeneration, "sync_weights", _generation)


def watch_async_trainer(module: Any) -> None:
    """Probe after each sync of TRL's AsyncGRPOTrainer."""
    _after(module.AsyncGRPOTrainer, "_sync_weight", _async_trainer)


class Probe:
    """Compares a trainer with its sampler.

    Args:
        sync: the way to the sampler.
        tokens: two or more.

    Attributes:
        last: the difference that was found last.
    """

    def __init__(self, sync: Sync, tokens: list[int]) -> None:
        self._sync = sync
        self._tokens = tokens
        self.last: float | None = None
        bound = sync.settings.bound or bound_of(sync.dtype)
        self._watch = Watch("the mean difference of a probe's log probabilities", bound, sync.settings.patience)

    def difference(self, model: Any) -> float:
        """Return the mean absolute difference over the tokens."""
        theirs = torch.tensor(self._sync.again(lambda: self._sync.server.logprobs(self._tokens), (ConnectionError,)))
        return float((_logprobs(model, self._tokens) - theirs).abs().mean())

    def check(self, model: Any) -> None:
        """End the training when the difference was too large several times in a row."""
        self.last = self.difference(model)
        verdict = self._watch.seen(self.last)
        if verdict is not None:
            opening.end(verdict)


class AdapterProbe(Probe):
    """Compares a trainer with the adapter of its sampler, and what the adapter changes on both sides.

    A sampler that answers without the adapter is close to the trainer while the adapter is small. So the change of the
    log probabilities by the adapter is compared as well, which is large against rounding long before.

    Args:
        sync: the way to the sampler.
        tokens: two or more.

    Attributes:
        unshown: the share of the change that the sampler did not show at last; None where it was too small to tell.
    """

    def __init__(self, sync: Sync, tokens: list[int]) -> None:
        super().__init__(sync, tokens)
        self.unshown: float | None = None
        what = "the share of the adapter's effect that the sampler does not show"
        self._effect = Watch(what, _SHARE, sync.settings.patience, "Look whether it serves this adapter at all.")

    def difference(self, model: Any) -> float:
        """Return the mean absolute difference over the tokens with the adapter, and compare its effect."""
        places, drawn, theirs = self._theirs(self._sync.adapter)
        mine = _all_logprobs(model, self._tokens)[places, drawn]
        others, before, theirs_before = self._theirs(None)
        with model.disable_adapter():
            without = _all_logprobs(model, self._tokens)
        noise = float((without[others, before] - theirs_before).abs().mean())
        self.unshown = unshown(mine.tolist(), theirs.tolist(), without[places, drawn].tolist(), noise)
        return float((mine - theirs).abs().mean())

    def _theirs(self, adapter: str | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return places in the text, the token that the sampler drew behind each, and its log probability."""
        places = list(range(0, len(self._tokens), _STRIDE))
        prompts = [self._tokens[: place + 1] for place in places]
        found = self._sync.again(lambda: self._sync.server.drawn(prompts, adapter), (ConnectionError,))
        tokens, logprobs = zip(*found, strict=True)
        return torch.tensor(places), torch.tensor(tokens), torch.tensor(logprobs)

    def check(self, model: Any) -> None:
        """End the training when the difference was too large, or too little was shown, several times in a row."""
        super().check(model)
        verdict = self._effect.seen(self.unshown) if self.unshown is not None else None
        if verdict is not None:
            opening.end(verdict)


def _after(kind: Any, name: str, then: Any) -> None:
    wrapped = getattr(kind, name)

    @functools.wraps(wrapped)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = wrapped(self, *args, **kwargs)
        then(self)
        return result

    setattr(kind, name, wrapper)


def _generation(generation: Any) -> None:
    sync = getattr(getattr(generation, "vllm_client", None), "muster", None)
    if sync is not None:
        _check(generation, generation.accelerator, sync, generation.model)


def _async_trainer(trainer: Any) -> None:
    sync = getattr(getattr(trainer, "weight_transfer", None), "muster", None)
    if sync is not None:
        _check(trainer, trainer.accelerator, sync, trainer.model)


def _check(owner: Any, accelerator: Any, sync: Sync, model: Any) -> None:
    """Probe a model that this rank has whole; a sharded one cannot be run by one rank alone."""
    if not hasattr(owner, "muster_probe"):
        owner.muster_probe = Probe(sync, tokens_of(owner.processing_class)) if _whole(accelerator) else None
    if owner.muster_probe is not None:
        owner.muster_probe.check(accelerator.unwrap_model(model))


def is_sharded(accelerator: Any) -> bool:
    """Whether no rank has the model whole."""
    kind = str(getattr(accelerator, "distributed_type", "")).upper()
    return any(each in kind for each in ("FSDP", "DEEPSPEED", "MEGATRON"))


def _whole(accelerator: Any) -> bool:
    if is_sharded(accelerator):
        opening.say("the model is sharded, so no probe is made after a sync; TRL's sampling_logp_difference is watched")
        return False
    return True


def tokens_of(processing_class: Any) -> list[int]:
    """Return the tokens of the fixed text that is compared."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    return list(tokenizer(_TEXT)["input_ids"])[:_LONGEST]


def _tree(model: Any, ids: torch.Tensor) -> dict[str, Any]:
    """Return what the attention of TRL's AsyncGRPOTrainer asks for: one segment, whose path is itself.

    Source: trl 1.16.0 experimental/async_grpo/packing.py, `tree_attention`.
    """
    if getattr(model.config, "_attn_implementation", None) != "tree_fa3":
        return {}
    count = ids.shape[1]
    places, ends = (
        torch.arange(count, device=ids.device),
        torch.tensor([0, count], dtype=torch.int32, device=ids.device),
    )
    cumulated = {"tree_cu_seqlens_q": ends, "tree_cu_seqlens_k": ends}
    longest = {"tree_max_seqlen_q": count, "tree_max_seqlen_k": count}
    return {"position_ids": places[None], "tree_kv_index": places, **cumulated, **longest}


def _logprobs(model: Any, tokens: list[int]) -> torch.Tensor:
    """Return the log probability of each token but the first."""
    return _all_logprobs(model, tokens)[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])]


def _all_logprobs(model: Any, tokens: list[int]) -> torch.Tensor:
    """Return the log probability of every token behind each token, [N, V]."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            ids = torch.tensor([tokens], device=next(model.parameters()).device)
            logits = model(input_ids=ids, use_cache=False, **_tree(model, ids)).logits[0].float()
    finally:
        model.train(training)
    return logits.log_softmax(-1).cpu()
