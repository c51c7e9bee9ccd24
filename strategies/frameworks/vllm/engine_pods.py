"""Engine pods: whether the nodes of one engine, or the servers of one pod, can start beside each other.

A server takes its part of a GPU's memory when it starts, and stops where less is free (vLLM `v1/worker/utils.py`
request_memory). What one command line says of its nodes stands in the rows of `strategies/upstream/vllm`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from muster.strategies.frameworks.vllm import gpu_shares, serve_arguments
from muster.strategies.frameworks.vllm.vllm_servers import Server

__all__ = ["Doubt", "alike", "crowded", "numbered"]

_PART = "gpu-memory-utilization"
_DEFAULT = "0.9"  # of the oldest that rows hold for; later ones take a little more
_LONGEST = 32
_ROUNDING = 1e-6
_INDEXES = ("$(JOB_COMPLETION_INDEX)", "$JOB_COMPLETION_INDEX", "${JOB_COMPLETION_INDEX}")

Doubt = tuple[Server, str, str]
"""The server, the flag that a finding is about, and the message."""


def alike(found: Sequence[Server], pods: int) -> Iterator[Doubt]:
    """Yield the server whose rank all nodes of an engine have, as each pod starts the same."""
    spread = [server for server in found if not server.open and (server.number("nnodes") or 0) > 1]
    ranks = {server.number("node-rank") if server.on("node-rank") else 0 for server in spread}
    if len(spread) == len(found) and pods > 1 and len(ranks) == 1 and None not in ranks:
        message = f"is {ranks.pop()} in all {pods} pods, so that each waits for the others; use $(JOB_COMPLETION_INDEX)"
        yield spread[0], "node-rank", message


def numbered(server: Server, pods: int, names: Sequence[str]) -> Iterator[Doubt]:
    """Yield what does not fit nodes that are told apart by the index of their pod in its Job.

    Args:
        server: the server that each pod starts.
        pods: how many pods each Job has.
        names: how the names of the pods of each Job begin.
    """
    nodes = server.number("nnodes")
    seen = server.parsed.config is None and all("--headless" in word for _, word in server.parsed.opaque)
    if not seen or nodes is None or nodes < 2 or server.text("node-rank") not in _INDEXES:
        return
    if nodes > pods:
        yield server, "nnodes", f"waits for {nodes} nodes, and there are {pods} pods; correct one of the two"
    elif nodes < pods:
        message = f"is below the number of pods, {pods}, so those from index {nodes} on stop; correct one"
        yield server, "nnodes", message
    host = (server.text("master-addr") or "").partition(".")[0]
    first = next((name for name in names if host.startswith(name)), None)
    index = host.removeprefix(first) if first is not None else "0"
    if index.isdecimal() and index != "0":
        yield server, "master-addr", f"is the pod of node {index}, and the nodes meet at node 0; name {first}0"


def crowded(found: Sequence[Server], gpus: int | None) -> Iterator[Doubt]:
    """Yield the server that finds too little memory, where several that run at once see the same GPUs.

    Args:
        found: servers that run side by side and number the same GPUs from 0.
        gpus: how many GPUs each of them sees, None when unknown, 0 on CPU.
    """
    if len(found) < 2 or not gpus or any(server.open or _chooses(server) for server in found):
        return
    known = [part for part in map(_part, found) if part is not None]
    if all(map(gpu_shares.used, found)) and len(known) == len(found) and math.fsum(known) > 1 + _ROUNDING:
        every = " and ".join(f"{part:g}" for part in known[:4])
        message = (
            f"{len(found)} servers start on the first GPU and take {every} of its memory, so the last of them finds "
            f"too little and stops; give each --{_PART} so that the sum is below 1, or a GPU of its own"
        )
        yield found[-1], _PART, message


def _chooses(server: Server) -> bool:
    """Whether a server may take other GPUs than the first ones, or another share of their memory."""
    return "CUDA_VISIBLE_DEVICES" in server.env or server.on("kv-cache-memory-bytes") or server.on("device-ids")


def _part(server: Server) -> float | None:
    text = server.text(_PART) or _DEFAULT
    try:
        return None if serve_arguments.hidden(text) or len(text) > _LONGEST else float(text)
    except ValueError:
        return None
