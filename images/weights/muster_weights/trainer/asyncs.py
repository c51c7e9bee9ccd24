"""The weight transfer of TRL's AsyncGRPOTrainer (its `WeightTransferProtocol`) by files.

Source: trl 1.16.0 experimental/async_grpo/weight_transfer.py and async_grpo_trainer.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster_weights.trainer import opening
from muster_weights.trainer.syncs import Sync
from muster_weights.trainer.tensors import named

__all__ = ["FilesTransfer", "replace_client"]


def replace_client(module: Any) -> None:
    """Put `FilesTransfer` in the place of TRL's client in `trl.experimental.async_grpo.weight_transfer`."""
    module.WeightTransferClient = FilesTransfer


class FilesTransfer:
    """Weights of an AsyncGRPOTrainer by files; may also be passed as its `weight_transfer`.

    The sampler serves the old version while the new one is written and verified, and is paused for the load only. So
    `pause` and `resume`, which TRL calls around all of it, do nothing.

    Args:
        vllm_client: TRL's, whose `server_url` is that of the sampler.
        weight_update_info: names, types and shapes, which the manifest tells.
        weight_sync_timeout: MUSTER_WEIGHTS_DEADLINE stands for it.
    """

    def __init__(self, vllm_client: Any, weight_update_info: Any = None, weight_sync_timeout: Any = None) -> None:
        del weight_update_info, weight_sync_timeout
        self._client = vllm_client
        self.muster: Sync | None = None

    def init_weight_transfer(self) -> None:
        """Wait for the sampler, and take its lease."""
        self._client.wait_for_server_ready()
        self.muster = opening.opened(self._client.server_url)

    def pause(self) -> None:
        """Do nothing: `send_weights` pauses."""

    def send_weights(self, iterator: Iterable[tuple[str, Any]]) -> None:
        """Send one version of the whole model, and return when it is served."""
        if self.muster is not None:
            self.muster.send(named(iterator))

    def resume(self) -> None:
        """Do nothing: `send_weights` has resumed."""

    def destroy(self) -> None:
        """Give the lease back and remove the files."""
        if self.muster is not None:
            self.muster.close()
