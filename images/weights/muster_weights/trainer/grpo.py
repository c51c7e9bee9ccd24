"""The client of TRL's trainers that generate by a server (GRPOTrainer, RLOOTrainer): weights go by files, not by NCCL.

Source: trl 1.16.0 generation/vllm_client.py and generation/vllm_generation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from requests.adapters import HTTPAdapter

from muster_weights.refusals import Refused
from muster_weights.trainer import opening
from muster_weights.trainer.servers import Away
from muster_weights.trainer.syncs import Sync
from muster_weights.trainer.tensors import named

__all__ = ["replace_client"]

_AT_ONCE = 64  # requests, as TRL has it


def replace_client(module: Any) -> None:
    """Put a client into `trl.generation.vllm_client` whose weights go by files, before others import it."""
    module.VLLMClient = _by_files(module.VLLMClient)


def _by_files(base: Any) -> Any:
    """Return TRL's client with another transport; all that it generates stays TRL's."""

    class FilesClient(base):  # type: ignore[misc]  # TRL's own class, which is untyped here
        """As TRL's, with weights by files."""

        muster: Sync | None = None

        def init_communicator(self, device: Any = 0) -> None:  # noqa: ARG002  # files need no device
            """Take the sampler's lease."""
            self.muster = opening.opened(self.base_url)
            for scheme in ("http://", "https://"):  # TRL's own tries end after a minute, and would delay ours
                self.session.mount(scheme, HTTPAdapter(pool_maxsize=_AT_ONCE))

        def update_named_params(self, metadata: Any, named_params: Iterable[tuple[str, Any]]) -> None:
            """Send one version of the whole model, and return when it is served."""
            del metadata  # the manifest has it
            if self.muster is None:
                raise Refused("weights by files: init_communicator was not called: call it before the first update")
            self.muster.send(named(named_params))

        def generate(self, *args: Any, **kwargs: Any) -> Any:
            """Generate with the newest version; a sampler that starts again meanwhile is waited for."""
            ask = super().generate
            if self.muster is None:
                return ask(*args, **kwargs)
            return self.muster.again(lambda: _answered(lambda: ask(*args, **kwargs)), (Away, OSError))

        def close_communicator(self) -> None:
            """Give the lease back and remove the files."""
            if self.muster is not None:
                self.muster.close()

        def _start_weight_update(self) -> NoReturn:
            raise Refused("weights by files go as one update: call update_model_params instead of update_named_param")

    return FilesClient


def _answered(ask: Callable[[], Any]) -> Any:
    """Ask, and tell an engine that has failed, which may be started again, from a request that is wrong."""
    try:
        return ask()
    except Exception as fault:
        if str(fault).startswith("Request failed: 5"):  # TRL raises no class of its own
            raise Away(str(fault)[:500]) from fault
        raise
