"""The flags, endpoints and env variables of vLLM that Muster relies on, and those that a build of vLLM lacks.

The flags are those that `strategies/frameworks/vllm/vllm_flags.py` and `vllm_strategy.py` read or write; a test compares
the two.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

__all__ = ["ENV", "FLAGS", "ROUTES", "missing"]

FLAGS = (
    "--async-scheduling", "--config", "--data-parallel-address", "--data-parallel-rank", "--data-parallel-size",
    "--data-parallel-size-local", "--data-parallel-start-rank", "--distributed-executor-backend", "--enable-lora",
    "--enable-sleep-mode", "--headless", "--host", "--model", "--nnodes", "--node-rank", "--pipeline-parallel-size",
    "--port", "--ssl-certfile", "--ssl-keyfile", "--tensor-parallel-size", "--uds", "--weight-transfer-config",
    "-dp", "-pp", "-tp",
)  # fmt: skip
ROUTES = (
    "/health", "/v1/models", "/v1/completions", "/v1/chat/completions",
    "/v1/load_lora_adapter", "/v1/unload_lora_adapter",
    "/sleep", "/wake_up", "/is_sleeping",
    "/collective_rpc", "/reset_prefix_cache", "/pause", "/resume",
    "/init_weight_transfer_engine", "/start_weight_update", "/update_weights", "/finish_weight_update",
    "/get_world_size", "/server_info",
)  # fmt: skip
ENV = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_SERVER_DEV_MODE": "1"}
"""The variables that enable the routes, with the values that the strategy sets."""


def missing() -> Iterator[str]:
    """Yield the names of what the installed vLLM lacks."""
    os.environ.update(ENV)
    import torch  # noqa: PLC0415  # takes seconds, as do the others
    from vllm import envs  # noqa: PLC0415  # reads the environment
    from vllm.entrypoints.launchers.app import build_app  # noqa: PLC0415  # as above
    from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: PLC0415  # as above
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415  # as above
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner  # noqa: PLC0415  # as above

    parser = make_arg_parser(FlexibleArgumentParser())
    known = {option for action in parser._actions for option in action.option_strings}  # noqa: SLF001  # no public API
    yield from (f"flag {flag}" for flag in FLAGS if flag not in known)
    yield from (f"env {name}" for name in ENV if not getattr(envs, name, False))
    app = build_app(parser.parse_args([]), ("generate",))
    paths = {getattr(route, "path", None) for route in app.routes}
    yield from (f"endpoint {path}" for path in ROUTES if path not in paths)
    if importlib.util.find_spec("pip") is None:
        yield "package pip: /server_info fails without it"
    if not hasattr(GPUModelRunner, "reload_weights"):
        yield "method reload_weights"
    if not hasattr(torch.ops._C, "rms_norm"):  # noqa: SLF001  # no public API
        yield "kernels: the image lacks a library that they need, or they are built for another device"
