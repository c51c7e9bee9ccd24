"""The weight transfer of TRL's AsyncGRPOTrainer (its `WeightTransferProtocol`) for LoRA: adapters that are verified.

TRL folds an adapter into the model for each transfer and takes it out again, which rounds the model a little each
time. Here the adapter alone is sent, so that the model stays what the sampler has, bit by bit.

Source: trl 1.16.0 experimental/async_grpo/async_grpo_trainer.py, `_sync_weight_merged` and `select_adapter_sync`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from peft import get_peft_model_state_dict
from trl.experimental.async_grpo.async_grpo_trainer import select_adapter_sync

from muster_weights.adapters import packed
from muster_weights.refusals import Refused
from muster_weights.trainer import opening, probes
from muster_weights.trainer.adapters import AdapterSync
from muster_weights.trainer.settings import settings
from muster_weights.trainer.tensors import named

__all__ = ["AdapterTransfer"]

_SPARE = 2  # the version that is loaded, and the one that a request may have named a moment before


class AdapterTransfer:
    """Adapters of an AsyncGRPOTrainer by files, which its sampler serves by name while requests run.

    It is given to the trainer as `weight_transfer`, its `name` to the worker as `lora_name`, and `attached` stands
    around `trainer.train()`, on every rank.

    Args:
        url: of the sampler.
        max_staleness: of AsyncGRPOConfig.

    Attributes:
        name: what the names of its adapters begin with, which no other run has.
        sync: the way to the sampler.
        probe: compares trainer and sampler after each version; None before the first.

    Raises:
        Refused: MUSTER_WEIGHTS_FOLDER or another variable has a value that it cannot have.
    """

    def __init__(self, url: str, *, max_staleness: int) -> None:
        self.sync = AdapterSync(url, settings(), opening.refuse, max_staleness + _SPARE)
        self.name = self.sync.run
        self.probe: probes.AdapterProbe | None = None
        self._trainer: Any = None

    @contextlib.contextmanager
    def attached(self, trainer: Any) -> Iterator[None]:
        """Send the adapter of this trainer, whose model stays as it is.

        Raises:
            Refused: the model has no adapter, or one that a sampler cannot serve exactly.
        """
        model = trainer.accelerator.unwrap_model(trainer.model)
        _servable(trainer, model)
        self._trainer = trainer
        model.merge_adapter = model.unmerge_adapter = _as_it_is
        try:
            yield
        finally:
            del model.merge_adapter, model.unmerge_adapter

    def init_weight_transfer(self) -> None:
        """Wait for the sampler, see that it can hold the adapters, and take its lease."""
        trainer = self._attached()
        trainer.vllm_client.wait_for_server_ready()
        if not select_adapter_sync(trainer.vllm_client.get_server_info(), self._model(), trainer.args):
            cure = "start it with --enable-lora, --max-loras and --max-lora-rank, and look at the warning above"
            raise Refused(f"the sampler cannot serve this adapter: {cure}")
        opening.begin(self.sync)

    def pause(self) -> None:
        """Do nothing: requests run on while an adapter is loaded."""

    def send_weights(self, iterator: Iterable[Any]) -> None:
        """Send the adapter, and return when it is served and was compared.

        Args:
            iterator: TRL's, over the whole model; it is not walked.
        """
        del iterator
        trainer, model = self._attached(), self._model()
        adapter = model.active_adapters[0]
        config = model.peft_config[adapter].to_dict()
        tensors = named(get_peft_model_state_dict(model, adapter_name=adapter).items())
        self.sync.publish(packed(config, tensors), trainer.model_version + 1)
        if self.probe is None:
            self.probe = probes.AdapterProbe(self.sync, probes.tokens_of(trainer.processing_class))
        self.probe.check(model)

    def resume(self) -> None:
        """Do nothing: nothing was paused."""

    def destroy(self) -> None:
        """Give the lease back, have the adapters unloaded, and remove the files."""
        self.sync.close()

    def _attached(self) -> Any:
        if self._trainer is None:
            raise Refused("the transfer of adapters has no trainer: put `with transfer.attached(trainer):` around it")
        return self._trainer

    def _model(self) -> Any:
        return self._trainer.accelerator.unwrap_model(self._trainer.model)


def _servable(trainer: Any, model: Any) -> None:
    """Raise `Refused` for what vLLM would serve as something else, beside what TRL's own check finds."""
    if not hasattr(model, "peft_config"):
        raise Refused("the model has no adapter: pass peft_config, or send the whole model by FilesTransfer")
    if probes.is_sharded(trainer.accelerator):
        raise Refused("adapters of a sharded model cannot be sent by one rank: use DDP, or TRL's own way")
    config = model.peft_config[model.active_adapters[0]]
    for name in ("rank_pattern", "alpha_pattern"):
        if getattr(config, name, None):
            raise Refused(f"peft_config.{name}: vLLM scales all matrices alike and would serve others: remove it")
    if config.lora_dropout:
        found = f"peft_config.lora_dropout: {config.lora_dropout}"
        raise Refused(f"{found} makes the trainer's probabilities other than the sampler's: set it to 0")


def _as_it_is() -> None:
    """Stand for PEFT's merge_adapter and unmerge_adapter."""
