"""Contradictions: flags that vLLM refuses together when it starts, after its parser has taken each of them.

Only what vLLM 0.19 to 0.32 refuse alike is here, so that it holds for a user's own image too
(`entrypoints/cli/serve.py`, `entrypoints/launchers/cli_args.py` validate_parsed_serve_args, `engine/arg_utils.py`
create_engine_config, `config/parallel.py`). A flag that admission cannot see is never judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.strategies.frameworks.vllm import members, parsing, sizes
from muster.strategies.frameworks.vllm.servers import Form, Server

__all__ = ["LORA_UPDATES", "Contradiction", "find", "updates_adapters"]

LORA_UPDATES = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
"""The env that opens the endpoints which load adapters."""

Contradiction = tuple[str, str]
"""The flag that a finding is about, and the message."""

_NEEDED = (
    ("enable-auto-tool-choice", "tool-call-parser"),
    ("enable-log-outputs", "enable-log-requests"),
    ("enable-eplb", "enable-expert-parallel"),
    ("enable-elastic-ep", "enable-eplb"),
    ("numa-bind-nodes", "numa-bind"),
    ("numa-bind-cpus", "numa-bind"),
    ("ssl-keyfile", "ssl-certfile"),
    ("collect-detailed-traces", "otlp-traces-endpoint"),
)
_TRANSFER = "kv-transfer-config"
_ROLES = ("kv_producer", "kv_consumer", "kv_both")
_EXTERNAL = ("data-parallel-external-lb", "data-parallel-rank")
_STORES = ("s3://", "gs://", "az://")
_OF_FILES = frozenset({"safetensors", "pt", "npcache", "hf", "mistral", "gguf", "bitsandbytes", "fastsafetensors"})
"""Load formats of files, which no object store has (`config/vllm.py`)."""


def find(server: Server) -> Iterator[Contradiction]:
    """Yield what vLLM would refuse."""
    if server.open:
        return
    yield from _needed(server)
    yield from _balancing(server)
    yield from _ranks(server)
    yield from _nodes(server)
    yield from _context(server)
    yield from _headless(server)
    yield from _batches(server)
    yield from _adapters(server)
    yield from _transfer(server)
    yield from _experts(server)
    yield from _speculation(server)
    yield from _stores(server)
    yield from _observed(server)
    yield from _profiled(server)
    yield from _structured(server)
    yield from _paths(server)


def updates_adapters(server: Server) -> bool:
    """Whether adapters may be loaded while the server runs."""
    return server.is_set(LORA_UPDATES)


def _needed(server: Server) -> Iterator[Contradiction]:
    for flag, needed in _NEEDED:
        if server.on(flag) and not server.on(needed):
            yield flag, f"vLLM would not start: --{flag} needs --{needed}; add it, or remove --{flag}"


def _balancing(server: Server) -> Iterator[Contradiction]:
    external = next((flag for flag in _EXTERNAL if server.on(flag)), None)
    local, hybrid = server.text("data-parallel-size-local"), server.on("data-parallel-hybrid-lb")
    if hybrid and server.on("data-parallel-external-lb"):
        message = "vLLM would not start: data parallelism is balanced in one way; remove one of the two -lb flags"
        yield "data-parallel-hybrid-lb", message
    elif hybrid and local is None and server.number("nnodes") == 1:
        message = "vLLM would not start: --data-parallel-hybrid-lb needs --data-parallel-size-local; add it"
        yield "data-parallel-hybrid-lb", message
    if external and server.number("data-parallel-size") == 1 and "VLLM_DP_SIZE" not in server.env:
        yield external, f"vLLM would not start: --{external} needs a --data-parallel-size of more than 1; set it"


def _ranks(server: Server) -> Iterator[Contradiction]:
    size, local = server.number("data-parallel-size"), server.number("data-parallel-size-local")
    if size and local and local > size and "VLLM_DP_SIZE" not in server.env:
        message = f"vLLM would not start: {local} local replicas are more than --data-parallel-size {size}; lower them"
        yield "data-parallel-size-local", message
    rank = server.number("data-parallel-rank") if server.on("data-parallel-rank") else None
    if size and rank is not None and size > 1 and rank >= size:
        message = f"vLLM would not start: ranks begin at 0, and --data-parallel-size is {size}; use a lower rank"
        yield "data-parallel-rank", message


def _nodes(server: Server) -> Iterator[Contradiction]:
    nodes, size = server.number("nnodes"), sizes.world(server)
    if nodes is None or nodes <= 1:
        return
    if size and size % nodes and "VLLM_DP_SIZE" not in server.env:
        message = (
            f"vLLM would not start: {nodes} nodes cannot share the {size} GPUs of all parallel sizes evenly; correct "
            "--nnodes or the sizes"
        )
        yield "nnodes", message
    backend = server.text("distributed-executor-backend")
    if backend == "ray":
        message = (
            "vLLM would not start: --nnodes is for multiprocessing, and Ray finds its own nodes; remove one of the two"
        )
        yield "nnodes", message
    rank = server.number("node-rank") if server.on("node-rank") else None
    if rank is not None and rank >= nodes:
        yield "node-rank", f"vLLM would not start: ranks begin at 0, and --nnodes is {nodes}; use a lower rank"


def _context(server: Server) -> Iterator[Contradiction]:
    tensor, decode = server.number("tensor-parallel-size"), server.number("decode-context-parallel-size")
    if server.number("prefill-context-parallel-size") == 1 and tensor and decode and tensor % decode:
        message = (
            f"vLLM would not start: it adds no GPUs and must divide --tensor-parallel-size, which is {tensor}; "
            "lower it, or raise the tensor parallel size"
        )
        yield "decode-context-parallel-size", message


def _headless(server: Server) -> Iterator[Contradiction]:
    if server.form is not Form.SERVE or server.grpc or not server.on("headless"):
        return
    count = server.number("api-server-count") if server.on("api-server-count") else 0
    if count:
        message = "vLLM would not start: a headless server answers no requests; remove --api-server-count or --headless"
        yield "api-server-count", message
    if server.on("data-parallel-hybrid-lb"):
        message = "vLLM would not start: a headless server balances nothing; remove --data-parallel-hybrid-lb"
        yield "data-parallel-hybrid-lb", message


def _batches(server: Server) -> Iterator[Contradiction]:
    """Compare the tokens of a batch with its sequences, and without chunks with the longest prompt.

    Only what is written is compared: the defaults depend on the version, the device and the model.
    """
    tokens, sequences, length = (
        parsing.count(server.text(flag) or "") for flag in ("max-num-batched-tokens", "max-num-seqs", "max-model-len")
    )
    if tokens is not None and sequences is not None and tokens < sequences:
        message = f"vLLM would not start: it must be at least --max-num-seqs, which is {sequences}; raise it"
        yield "max-num-batched-tokens", message
    active = parsing.count(server.text("max-num-active-seqs") or "")
    if active is not None and sequences is not None and active > sequences:
        message = f"vLLM would not start: it may not be above --max-num-seqs, which is {sequences}; lower it"
        yield "max-num-active-seqs", message
    chunk = server.number("long-prefill-token-threshold") if server.on("long-prefill-token-threshold") else None
    if chunk is not None and length is not None and chunk > length:
        message = f"vLLM would not start: it may not be above --max-model-len, which is {length}; lower it"
        yield "long-prefill-token-threshold", message
    if tokens is not None and length is not None and tokens < length and "enable-chunked-prefill" in server.parsed.off:
        message = (
            f"vLLM would not start: without chunked prefill it must be at least --max-model-len, which is {length}; "
            "raise it, or remove --no-enable-chunked-prefill"
        )
        yield "max-num-batched-tokens", message


def _adapters(server: Server) -> Iterator[Contradiction]:
    kept = server.number("max-cpu-loras") if server.on("max-cpu-loras") else None
    at_once = server.number("max-loras")
    if server.on("enable-lora") and kept is not None and at_once and kept < at_once:
        yield "max-cpu-loras", f"vLLM would not start: it must be at least --max-loras, which is {at_once}; raise it"
    yield from _updates(server)


def _updates(server: Server) -> Iterator[Contradiction]:
    count = server.api_servers
    if count is None or count <= 1 or not updates_adapters(server) or server.is_set("VLLM_USE_RUST_FRONTEND"):
        return
    flag = "api-server-count" if server.on("api-server-count") else "data-parallel-size"
    message = (
        f"vLLM would not start: {LORA_UPDATES} works with one API server, and {count} would run, by default one for "
        "each data parallel replica; set --api-server-count 1"
    )
    yield flag, message


def _transfer(server: Server) -> Iterator[Contradiction]:
    """Check the role in a transfer of KV caches (`config/kv_transfer.py`)."""
    text, wanted = server.text(_TRANSFER), members.read(server, _TRANSFER)
    if not text or wanted is None:
        return
    role = wanted.get("kv_role")
    if role is None and wanted.get("kv_connector") is not None:
        message = f"vLLM would not start: a kv_connector needs a kv_role; add {' or '.join(_ROLES)}"
        yield _TRANSFER, message
    elif role is not None and role not in _ROLES:
        yield _TRANSFER, f"vLLM would not start: its kv_role is not {' or '.join(_ROLES)}; use one of them"


def _experts(server: Server) -> Iterator[Contradiction]:
    """Check that redundant experts are balanced (`config/parallel.py` _validate_parallel_config)."""
    wanted = members.read(server, _BALANCE) or {}
    count = wanted.get("num_redundant_experts")
    interval = wanted.get("log_balancedness_interval")
    if wanted.get("log_balancedness") is True and type(interval) is int and interval < 1:
        yield _BALANCE, "vLLM would not start: log_balancedness_interval must be 1 or more; raise it"
    if type(count) is int and count and not server.on("enable-eplb"):
        yield _BALANCE, "vLLM would not start: num_redundant_experts needs --enable-eplb; add it, or remove this"


_BALANCE = "eplb-config"


def _speculation(server: Server) -> Iterator[Contradiction]:
    """Check numbers of speculative decoding (`config/speculative.py` _verify_args)."""
    wanted = members.read(server, _SPECULATION)
    if wanted is None:
        return
    count = wanted.get("num_speculative_tokens")
    if wanted.get("tensor_parallel_size") is not None:
        message = "vLLM would not start: the size of a draft model is draft_tensor_parallel_size; rename it"
        yield _SPECULATION, message
    if count is None and wanted.get("method") == "ngram":
        yield _SPECULATION, "vLLM would not start: ngram needs num_speculative_tokens; add it"
    elif type(count) is int and count < 1:
        yield _SPECULATION, "vLLM would not start: num_speculative_tokens must be 1 or more; raise it"


_SPECULATION = "speculative-config"


def _stores(server: Server) -> Iterator[Contradiction]:
    model, load = (server.model or "").lower(), server.text("load-format")
    if model.startswith(_STORES) and load in _OF_FILES:
        message = "vLLM would not start: a model in an object store is streamed; use runai_streamer, or remove the flag"
        yield "load-format", message


def _observed(server: Server) -> Iterator[Contradiction]:
    if server.on("enable-per-request-metrics") and server.on("disable-log-stats"):
        message = "vLLM would not start: it needs the statistics that --disable-log-stats takes away; remove one"
        yield "enable-per-request-metrics", message
    ray = "ray" in (server.text("distributed-executor-backend"), server.text("data-parallel-backend"))
    if server.on("ray-workers-use-nsight") and not ray:
        message = "vLLM would not start: it is for workers of Ray; add --distributed-executor-backend ray, or remove it"
        yield "ray-workers-use-nsight", message
    if (server.text("sse-keep-alive-interval") or "").startswith("-"):
        yield "sse-keep-alive-interval", "vLLM would not start: the value must be 0 or more; raise it"
    length = server.text("max-model-len")
    if length is not None and parsing.count(length) == 0:
        yield "max-model-len", "vLLM would not start: a length is 1 or more, or auto; raise it"


def _profiled(server: Server) -> Iterator[Contradiction]:
    """Check that torch's profiler, and nothing else, has its folder (`config/profiler.py`)."""
    wanted = members.read(server, _PROFILER) or {}
    folder, profiler = wanted.get("torch_profiler_dir"), wanted.get("profiler")
    if profiler == "torch" and not folder:
        yield _PROFILER, "vLLM would not start: the profiler of torch needs torch_profiler_dir; add it"
    elif folder and profiler != "torch":
        yield _PROFILER, "vLLM would not start: torch_profiler_dir is for the profiler torch; name it, or remove this"


_PROFILER = "profiler-config"


def _structured(server: Server) -> Iterator[Contradiction]:
    """Check options that few backends of structured outputs have (`config/structured_outputs.py`)."""
    wanted = members.read(server, _STRUCTURED) or {}
    backend = wanted.get("backend", "auto")
    for option, backends in _OF_BACKENDS.items():
        if wanted.get(option) is True and backend not in backends:
            message = f"vLLM would not start: {option} needs the backend {' or '.join(backends)}; name it"
            yield _STRUCTURED, message


_STRUCTURED = "structured-outputs-config"
_OF_BACKENDS = {"disable_any_whitespace": ("xgrammar", "guidance"), "disable_additional_properties": ("guidance",)}


def _paths(server: Server) -> Iterator[Contradiction]:
    """Check that a single adapter has a path, `name=path` or JSON (`entrypoints/launchers/cli_args.py`)."""
    text = server.text("lora-modules")
    if text and text.isprintable() and not any(each in text for each in "= {[$"):
        yield "lora-modules", "vLLM would not start: an adapter is name=path, or JSON; add its path"
