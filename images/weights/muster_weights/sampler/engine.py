"""vLLM's weight transfer by files: a version is verified while the old one serves, then loaded in one piece.

Source: vllm 0.31.0 distributed/weight_transfer/base.py, v1/worker/gpu_worker.py and model_executor/model_loader/reload.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.logger import init_logger
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload
from vllm.platforms import current_platform
from vllm.v1.worker.gpu_worker import Worker

from muster_weights import manifests, names, readings
from muster_weights.refusals import Refused
from muster_weights.sampler import endings, shapes
from muster_weights.sampler.copies import Copies, place_of
from muster_weights.sampler.states import Shapes, State

__all__ = ["FilesEngine"]

_logger = init_logger(f"vllm.{__name__}")
_FOLDER = "MUSTER_WEIGHTS_FOLDER"
_TIED = (
    "this model ties its embeddings (tie_word_embeddings), and vLLM on CPUs would go on with the old output layer after"
    " each update"
)


@dataclass
class InitInfo(WeightTransferInitInfo):  # type: ignore[misc]  # vLLM is untyped here
    """Whose versions the sampler takes from now on."""

    run: str


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):  # type: ignore[misc]  # as above
    """Which version to load, as `names.told` reads it."""

    run: str
    version: int
    digest: str


class FilesEngine(WeightTransferEngine):  # type: ignore[misc]  # as above
    """The engine `muster_files` in one worker of vLLM.

    A failed update leaves the old weights, with one exception: where vLLM fails in the middle of a load, the weights
    are a mixture, and the process ends, so that it is started again with the version that was served last.
    """

    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    def __init__(self, config: Any, vllm_config: Any, device: torch.device, model: torch.nn.Module) -> None:
        super().__init__(config, vllm_config, device, model)
        _possible(vllm_config)
        self._root = _root()
        self._adapters = _adapters(self._root, vllm_config)
        self._whole = not (_tied(vllm_config) and current_platform.is_cpu())
        found = shapes.of(self.model_config.model, self.model_config.revision)
        self._state = State(self._root, _without_tied(found, vllm_config))
        Worker.muster_weights = _answer
        self._continue()

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        """Take the versions of a run; what is served stays until one of them is loaded."""
        self._bind(init_info.run)

    def start_weight_update(self) -> None:
        """Do nothing yet: a trainer that dies after this leaves whole weights."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load a version that is verified, or verify it now.

        Raises:
            Refused: for all that must not be served; nothing was changed.
        """
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: UpdateInfo) -> None:
        """Load a version; as `update_weights`."""
        told = names.told(asdict(update_info))
        if not self._whole:
            raise Refused(f"{told.text}: {_TIED}, so that this server takes adapters only")
        if told != self._state.served or told.run != self._state.run:
            self._load(self._state.take(told))

    def finish_weight_update(self) -> None:
        """Do nothing more: a version is loaded in one piece."""

    def shutdown(self) -> None:
        """End the verification, and remove the copies of adapters."""
        self._state.close()
        if self._adapters is not None:
            self._adapters.close()

    def answer(self, command: str, told: dict[str, Any]) -> dict[str, Any]:
        """Answer a route.

        Args:
            command: `state` says what is served; `stage` verifies a version beside the serving, and `copy` does so for
                an adapter; `served` says that an adapter was loaded, and `drop` that it was unloaded.
            told: the version, as `names.told` reads it; ignored by `state`.
        """
        try:
            return self._answer(command, names.told(told)) if command != "state" else self._told()
        except Refused as reason:
            return {"state": "refused", "reason": str(reason)}

    def _answer(self, command: str, told: names.Told) -> dict[str, Any]:
        if command == "stage":
            return self._state.stage(told)
        if self._adapters is None:
            raise Refused("this server loads no adapters: start it with --enable-lora")
        if command == "copy":
            return self._adapters.copy(told)
        if command == "served":
            self._adapters.served = told
        else:
            self._adapters.drop(told)
        return {}

    def _told(self) -> dict[str, Any]:
        """Return what was loaded last: an adapter, or a whole model."""
        loaded = self._adapters is not None and self._adapters.served is not None
        return self._adapters.told() if self._adapters is not None and loaded else self._state.told()

    def _bind(self, run: str) -> None:
        self._state.bind(run)
        if self._adapters is not None:
            self._adapters.bind(run)

    def _continue(self) -> None:
        """Begin with the version that was served last, so that a restart never serves the model as it was before."""
        try:
            told = readings.current(self._root)
            if told is not None and self._whole:
                self._bind(told.run)
                self._load(self._state.take(told))
                _logger.info("muster: began with %s, which was served last", told.text)
        except Refused as reason:
            self._state.run = None
            _logger.warning(
                "muster: the version that was served last is not loaded, a trainer must send one: %s", reason
            )

    def _load(self, verified: readings.Verified) -> None:
        wanted = {name.replace(".base_layer.", ".") for name, _ in self.model.named_parameters()}
        try:
            with torch.device(self.device):
                initialize_layerwise_reload(self.model)
                loaded = self.model.load_weights(_tensors(verified))
                finalize_layerwise_reload(self.model, self.model_config)
            _whole(wanted, loaded, verified)
        except BaseException as fault:  # noqa: BLE001  # whatever it was, the weights are a mixture
            _end(verified.told, fault)
        self._state.served = verified.told
        verified.close()


def _possible(vllm_config: Any) -> None:
    """End for what cannot be served exactly: tied embeddings on CPUs keep an old copy, and a lease has one process.

    What a quantized model must be given is not what its trainer has.
    """
    if _tied(vllm_config) and current_platform.is_cpu() and vllm_config.lora_config is None:
        endings.refuse(f"weights by files: {_TIED}; use an untied model, or a GPU")
    if vllm_config.lora_config is not None and vllm_config.parallel_config.data_parallel_size > 1:
        endings.refuse(
            "adapters by files: one of the data-parallel engines would load them: remove --data-parallel-size"
        )
    if vllm_config.model_config.quantization is not None:
        kind = vllm_config.model_config.quantization
        endings.refuse(
            f"weights by files: the sampler is quantized ({kind}), which was never run: use an unquantized model"
        )
    if getattr(vllm_config.parallel_config, "_api_process_count", 1) > 1:
        endings.refuse("weights by files: a lease is kept by one process: remove --api-server-count, or pass 1")


def _root() -> Path:
    folder = os.environ.get(_FOLDER, "")
    if not Path(folder).is_absolute():
        endings.refuse(
            f"{_FOLDER}: {folder[:200]!r} is not an absolute path: set it to a folder of the volume of both roles"
        )
    return Path(folder)


def _without_tied(found: Shapes, vllm_config: Any) -> Shapes:
    """Leave out an output layer that is the embedding again: trainers name only one of the two."""
    tied = _tied(vllm_config)
    return {name: shape for name, shape in found.items() if not (tied and name == "lm_head.weight")}


def _tied(vllm_config: Any) -> bool:
    return bool(getattr(vllm_config.model_config.hf_text_config, "tie_word_embeddings", False))


def _adapters(root: Path, vllm_config: Any) -> Copies | None:
    """Return what takes adapters; None for a server without --enable-lora."""
    if vllm_config.lora_config is None:
        return None
    try:
        return Copies(root, place_of(vllm_config.instance_id))
    except (OSError, Refused) as fault:
        endings.refuse(f"adapters by files: there is no place for their copies ({fault})")


def _tensors(verified: readings.Verified) -> Iterator[tuple[str, torch.Tensor]]:
    for each in verified.manifest.tensors:
        kind, count = getattr(torch, each.dtype), manifests.size_of(each) // manifests.ITEMS[each.dtype]
        flat = torch.empty(0, dtype=kind, device="cpu")
        if count:
            flat = torch.frombuffer(verified.data, dtype=kind, count=count, offset=each.offset)
        yield each.name, flat.reshape(each.shape)


def _whole(wanted: set[str], loaded: set[str] | None, verified: readings.Verified) -> None:
    lacking = sorted(wanted - set(loaded)) if loaded is not None else []
    if lacking:
        raise Refused(f"{len(lacking)} parameters got no weights, first {lacking[0]}")
    if not verified.unchanged():
        raise Refused("the file was changed while it was loaded")


def _end(told: names.Told, fault: BaseException) -> NoReturn:
    endings.leave(
        f"weights by files: {told.text}: {str(fault)[:500]}; the server ends, because its weights are a mixture"
    )


def _answer(worker: Any, command: str, told: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = worker.weight_transfer_engine.answer(command, told)
    return found
