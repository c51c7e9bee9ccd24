"""Meetings: whether the pods of one engine, or the servers of one pod, can start beside each other.

An engine of several nodes (`--nnodes`) meets at the address of its first node, which is the own loopback by default
(vLLM 0.31 `config/parallel.py` master_addr), and its nodes have different ranks. A server takes its part of a GPU's
memory when it starts, and stops where less is free (`v1/worker/utils.py` request_memory).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from muster.strategies.frameworks.vllm import parsing, sizes
from muster.strategies.frameworks.vllm.servers import Server

__all__ = ["crowded", "find", "numbered"]

_LOOPBACK = re.compile(r"localhost(?:\.localdomain)?|127\.\d+\.\d+\.\d+|::1|\[::1\]")
_PART = "gpu-memory-utilization"
_LONGEST = 32
_ROUNDING = 1e-6

Doubt = tuple[Server, str, str]
"""The server, the flag that a finding is about, and the message."""


def find(found: Sequence[Server], pods: int) -> Iterator[Doubt]:
    """Yield what keeps the nodes of one engine apart.

    Args:
        found: the servers that the pods of one replicated job start.
        pods: how many pods there are.
    """
    spread = [server for server in found if not server.open and (server.number("nnodes") or 0) > 1]
    for server in spread:
        address = server.text("master-addr")
        if address is None or _LOOPBACK.fullmatch(address):
            said = "is the own loopback of each pod" if address else "is missing, and vLLM takes the own loopback"
            message = f"{said}, where the nodes of one engine do not find each other; name the pod of node 0"
            yield server, "master-addr", message
    for server in found:
        if not server.open and server not in spread and _replicas_elsewhere(server):
            address = server.text("data-parallel-address") or server.text("master-addr")
            if address is None or _LOOPBACK.fullmatch(address):
                message = (
                    "is the own loopback of each pod where it is not set, and the replicas of other pods are not found "
                    "there; name the pod of the head"
                )
                yield server, "data-parallel-address", message
    ranks = {server.number("node-rank") if server.on("node-rank") else 0 for server in spread}
    if spread and len(spread) == len(found) and pods > 1 and len(ranks) == 1 and None not in ranks:
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


_INDEXES = ("$(JOB_COMPLETION_INDEX)", "$JOB_COMPLETION_INDEX", "${JOB_COMPLETION_INDEX}")


def _replicas_elsewhere(server: Server) -> bool:
    """Whether one front end answers for replicas in other pods, which then have to find it by an address.

    With a balancer of the user's own, each replica of a dense model stands for itself.
    """
    own = ("data-parallel-rank", "data-parallel-hybrid-lb", "data-parallel-external-lb")
    if any(server.on(flag) for flag in (*own, "data-parallel-multi-port-external-lb")):
        return False
    ray = server.text("data-parallel-backend") == "ray" or {"VLLM_DP_SIZE", "VLLM_DP_MASTER_IP"} & set(server.env)
    size, local = server.number("data-parallel-size"), server.number("data-parallel-size-local")
    here = local if server.on("data-parallel-size-local") else size
    if ray or size is None or here is None or size < 2:
        return False
    return server.on("headless") or here < size


def crowded(found: Sequence[Server], gpus: int | None) -> Iterator[Doubt]:
    """Yield the server that finds too little memory, where several that run at once see the same GPUs.

    Args:
        found: servers that run side by side and number the same GPUs from 0.
        gpus: how many GPUs each of them sees, None when unknown, 0 on CPU.
    """
    if len(found) < 2 or not gpus or any(server.open or _chooses(server) for server in found):
        return
    used = [sizes.used(server) for server in found]
    parts = [_part(server) for server in found]
    known = [part for part, count in zip(parts, used, strict=True) if part is not None and count]
    if len(known) == len(found) and math.fsum(known) > 1 + _ROUNDING:
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
    text = server.text(_PART)
    if text is None:
        return _DEFAULT
    if parsing.hidden(text) or len(text) > _LONGEST:
        return None
    try:
        return float(text)
    except ValueError:
        return None


_DEFAULT = 0.9  # of vLLM 0.19; later ones take a little more
