"""Completions: the flags and the env that a sampler lacks, for the training that asks it.

TRL's client wants vLLM's development endpoints and a configured way of weights, or it stops at its start; without
processed log-probabilities its importance ratio is biased, and it only warns (trl `generation/vllm_client.py`,
`vllm_generation.py`, `scripts/vllm_serve.py`). A flag that the sampler has is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from muster.strategies.frameworks.samplers import role_devices, role_pairs, sent_adapters, weight_transfers
from muster.strategies.frameworks.samplers.role_pairs import Pair
from muster.strategies.frameworks.vllm import gpu_shares, serve_arguments, vllm_servers
from muster.strategies.frameworks.vllm.vllm_servers import Form, Server
from muster.strategies.launches import topologies

LORA_UPDATES = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
__all__ = ["DEV_MODE", "Flag", "completed", "list_env", "list_flags"]

DEV_MODE = "VLLM_SERVER_DEV_MODE"
"""The env that opens the endpoints by which weights are updated, and others, to everybody who reaches the port."""


class Flag(Struct, frozen=True):
    """A flag to add: its words, and what it is for."""

    words: tuple[str, ...]
    reason: str


def list_flags(pair: Pair) -> list[Flag]:
    """Return the flags to add to the sampler; none where they would not reach it, or a file may hold them."""
    server = pair.sampler.server
    if server is None or not _may_complete(pair, server):
        return []
    return [flag for flag in _wanted(pair, server) if not server.has(flag.words[0].lstrip("-"))]


def _may_complete(pair: Pair, server: Server) -> bool:
    readable = pair.sampler.bare and not server.open and server.form is not Form.GRPC
    return readable and pair.is_asked


def _wanted(pair: Pair, server: Server) -> Iterator[Flag]:
    yield from _model(pair, server)
    size = _tensor_parallel_size(pair, server)
    if size is not None:
        yield Flag(("--tensor-parallel-size", str(size)), "it uses all GPUs of its own pod")
    if role_devices.idle_role(pair) is None or not weight_transfers.is_nccl(pair):
        yield Flag((f"--{weight_transfers.FLAG}", weight_transfers.config(pair)), "the trainer can send it weights")
    reason = "its log-probabilities are those of the tokens that were drawn, which the importance ratio compares"
    yield Flag(("--logprobs-mode", "processed_logprobs"), reason)
    dtype = pair.training.dtype
    if dtype is not None:
        yield Flag(("--dtype", dtype), f"it computes in {dtype} as the trainer does")
    yield from _adapters(pair)


def _model(pair: Pair, server: Server) -> Iterator[Flag]:
    trained, revision = (pair.training.text(name) for name in ("model_name_or_path", "model_revision"))
    if trained is None:
        return
    if server.model is None and not server.parsed.positionals:
        yield Flag(("--model", trained), "it serves the model that is trained")
    elif server.model is None or not role_pairs.same_model(server.model, trained):
        return
    if revision not in (None, "main") and not role_pairs.is_path(trained):
        yield Flag(("--revision", str(revision)), "it serves the revision that is trained")


def _adapters(pair: Pair) -> Iterator[Flag]:
    found = sent_adapters.find(pair)
    if found is None:
        return
    yield Flag(("--enable-lora",), "it can load the adapters of the training")
    if found.count is not None:
        yield Flag(("--max-loras", str(found.count)), "it holds the adapters of every version that may be asked")
    if found.fitting_rank is not None:
        yield Flag(("--max-lora-rank", str(found.fitting_rank)), "it holds adapters of this rank")


def _tensor_parallel_size(pair: Pair, server: Server) -> int | None:
    others = topologies.sees_others(pair.sampler.place.container)
    gpus = topologies.visible(role_devices.count(pair), server.env, others=others)
    return gpu_shares.missing(server if server.model else _named(pair, server), gpus)


def _named(pair: Pair, server: Server) -> Server:
    """Return the server with the model that it will get, whose heads limit the tensor parallel size."""
    trained = pair.training.text("model_name_or_path")
    return _with(server, ("--model", trained)) if trained and not server.parsed.positionals else server


def completed(pair: Pair) -> Server | None:
    """Return the sampler's server as it will run, with the flags that Muster adds for each training that asks it."""
    key = (completed, pair.sampler.place.path)
    return role_pairs.kept(pair.job, key, len(pair.job.changes), lambda: _completed(pair))


def _completed(pair: Pair) -> Server | None:
    sampler = pair.sampler
    for each in role_pairs.asking(pair):
        words = [word for flag in list_flags(replace(each, sampler=sampler)) for word in flag.words]
        if words and sampler.server is not None:
            sampler = replace(sampler, server=_with(sampler.server, tuple(words)))
    return sampler.server


def _with(server: Server, words: tuple[str, ...]) -> Server:
    return vllm_servers.extended(server, words)


def list_env(pair: Pair) -> Iterator[tuple[str, str, str]]:
    """Yield (name, value, reason) of each variable that the sampler needs."""
    server = pair.sampler.server
    if server is None or server.form is Form.GRPC or not pair.is_asked:
        return
    yield DEV_MODE, "1", "the trainer sends weights to endpoints that vLLM opens only in this mode"
    mine = weight_transfers.folder(pair.job, pair.node)
    if mine and not weight_transfers.folder(pair.job, pair.sampler.place) and not serve_arguments.hidden(mine):
        yield weight_transfers.FOLDER, mine, "the trainer writes weights into this folder"
    if sent_adapters.find(pair) is not None and not sent_adapters.by_files(pair):
        yield LORA_UPDATES, "True", "vLLM loads adapters at run time only with this variable"
