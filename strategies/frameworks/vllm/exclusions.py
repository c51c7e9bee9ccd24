"""Exclusions: an option that is given in two ways, and numbers of which one bounds the other, when vLLM starts.

vLLM copies a flag into the member of a configuration that means the same, and stops where both are given
(`engine/arg_utils.py` create_engine_config). The bounds are those of `config/speculative.py`, `config/offload.py`,
`config/parallel.py` and `engine/arg_utils.py` of vLLM 0.31.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.frameworks.vllm import members, parsing
from muster.strategies.frameworks.vllm.servers import Server

__all__ = ["find", "recent"]

Exclusion = tuple[str, str]
"""The flag that a finding is about, and the message."""

_SPECULATION = "speculative-config"
_TWICE = (
    ("attention-backend", "attention-config", "backend"),
    ("cudagraph-capture-sizes", "compilation-config", "cudagraph_capture_sizes"),
    ("max-cudagraph-capture-size", "compilation-config", "max_cudagraph_capture_size"),
    ("enable-flashinfer-autotune", "kernel-config", "enable_flashinfer_autotune"),
    ("spec-method", _SPECULATION, "method"),
    ("spec-model", _SPECULATION, "model"),
    ("spec-tokens", _SPECULATION, "num_speculative_tokens"),
)
_LOOKUPS = frozenset({"ngram", "ngram_gpu", "[ngram]"})
_HALVES = 2


def find(server: Server) -> Iterator[Exclusion]:
    """Yield what vLLM would refuse in each of the versions that have the flags."""
    if server.open:
        return
    yield from _twice(server)
    yield from _draft(server)
    yield from _layers(server)
    yield from _devices(server)


def recent(server: Server) -> Iterator[Exclusion]:
    """Yield what the supported version refuses, and another may take."""
    if server.open:
        return
    nodes = server.number("nnodes")
    if nodes is not None and nodes > 1 and server.text("data-parallel-backend") == "ray":
        yield "data-parallel-backend", "vLLM would not start: --nnodes needs the backend mp; remove one of the two"
    for flag in ("dbo-decode-token-threshold", "dbo-prefill-token-threshold") if server.on("enable-dbo") else ():
        least = server.number(flag) if server.on(flag) else None
        if least is not None and least < _HALVES:
            yield flag, "vLLM would not start: a batch is divided in two, so it must be 2 or more; raise it"


def _twice(server: Server) -> Iterator[Exclusion]:
    values, off = server.parsed.values, server.parsed.off
    for flag, config, member in _TWICE:
        if (flag in values or flag in off) and config in values:
            held = members.read(server, config) or {}
            if held.get(member) is not None:
                yield flag, f"vLLM would not start: {member} of --{config} says the same; remove one of the two"


def _draft(server: Server) -> Iterator[Exclusion]:
    """Compare numbers of speculative decoding with each other and with those of the server."""
    wanted = members.read(server, _SPECULATION) if server.on(_SPECULATION) else None
    if not wanted:
        return
    size, tensor = wanted.get("draft_tensor_parallel_size"), server.number("tensor-parallel-size")
    if type(size) is int and tensor is not None and size not in (1, tensor):
        choice = f"1 or {tensor}" if tensor > 1 else "1"
        message = f"vLLM would not start: draft_tensor_parallel_size is 1 or that of the model; use {choice}"
        yield _SPECULATION, message
    least, most = wanted.get("prompt_lookup_min"), wanted.get("prompt_lookup_max")
    if wanted.get("method") in _LOOKUPS and type(least) is int and type(most) is int and least > most:
        yield _SPECULATION, "vLLM would not start: prompt_lookup_min is above prompt_lookup_max; lower it"
    yield from _adapted(server, wanted)


def _adapted(server: Server, wanted: Mapping[str, Any]) -> Iterator[Exclusion]:
    """With adapters, the tokens of a step hold those of all sequences and what is guessed for each."""
    tokens, sequences = (parsing.count(server.text(flag) or "") for flag in ("max-num-batched-tokens", "max-num-seqs"))
    guessed = wanted.get("num_speculative_tokens")
    if not server.on("enable-lora") or type(guessed) is not int or tokens is None or sequences is None:
        return
    if sequences <= tokens < sequences * (guessed + 1):
        message = (
            f"vLLM would not start: with adapters, {sequences} sequences of {guessed} speculative tokens and one more "
            f"need {sequences * (guessed + 1)}; raise it, or lower --max-num-seqs"
        )
        yield "max-num-batched-tokens", message


def _layers(server: Server) -> Iterator[Exclusion]:
    group = server.number("offload-group-size") if server.on("offload-group-size") else None
    count = server.number("offload-num-in-group")
    if group and count is not None and count > group:
        message = f"vLLM would not start: a group has only {group} layers (--offload-group-size); lower it"
        yield "offload-num-in-group", message


def _devices(server: Server) -> Iterator[Exclusion]:
    text = server.text("device-ids")
    if not text or parsing.hidden(text):
        return
    named = [each.strip() for each in text.split(",")]
    if len(set(named)) < len(named):
        yield "device-ids", "vLLM would not start: a device is named twice; name each once"
