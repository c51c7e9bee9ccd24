"""The plugin that vLLM loads in each of its processes, by the entry point `vllm.general_plugins`.

It changes nothing for a server without `--weight-transfer-config '{"backend": "muster_files"}'`, beside its routes.
"""

from __future__ import annotations

from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.entrypoints.serve.dev.rlhf import api_router

from muster_weights import names
from muster_weights.sampler import routes

__all__ = ["register"]


def register() -> None:
    """Add the engine `muster_files`, and its routes to those of vLLM's development mode; once in a process."""
    if names.BACKEND in WeightTransferEngineFactory._registry:  # noqa: SLF001  # vLLM may load a plugin twice
        return
    WeightTransferEngineFactory.register_engine(names.BACKEND, "muster_weights.sampler.engine", "FilesEngine")
    routes.add(api_router.router)
