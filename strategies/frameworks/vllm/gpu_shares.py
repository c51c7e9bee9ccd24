"""GPU shares: how many GPUs of one pod a server uses, and which sizes would use them all.

A replica takes tensor x pipeline x prefill context GPUs; data parallelism repeats it. Expert parallelism divides the
same GPUs in another way, and decode context parallelism reuses those of tensor parallelism: neither adds any (vLLM
`config/parallel.py`, world_size and enable_expert_parallel; `engine/arg_utils.py` create_engine_config for the replicas
of one pod).

A server takes its part of a GPU's memory when it starts, and stops where less is free (vLLM `v1/worker/utils.py`
request_memory). What one command line says of its nodes stands in the rows of `strategies/upstream/vllm`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from muster.strategies.frameworks.vllm import model_shapes, serve_arguments
from muster.strategies.frameworks.vllm.vllm_servers import Server

__all__ = [
    "Doubt",
    "advise",
    "alike",
    "crowded",
    "fitting",
    "has_replicas_elsewhere",
    "missing",
    "numbered",
    "used",
    "world",
]

_REPLICA = ("tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size")
_MOST = 1_024
_EXTERNAL = ("data-parallel-external-lb", "data-parallel-rank")


def world(server: Server) -> int | None:
    """Return the GPUs of all replicas on all nodes, None when a size cannot be seen."""
    return _product(server, *_REPLICA, "data-parallel-size")


def used(server: Server) -> int | None:
    """Return the GPUs that a server uses in its pod, None when that cannot be seen or Ray places its workers."""
    backend = server.text("distributed-executor-backend")
    if "ray" in (backend, server.text("data-parallel-backend")) or backend == "external_launcher":
        return None
    if server.open or "VLLM_DP_SIZE" in server.env:
        return None
    each, nodes = _product(server, *_REPLICA), server.number("nnodes")
    if each is None or nodes is None:
        return None
    if nodes > 1:
        return _of_node(server, nodes)
    if any(server.on(flag) for flag in _EXTERNAL):
        return each
    local = "data-parallel-size-local" if server.on("data-parallel-size-local") else "data-parallel-size"
    count = server.number(local)
    return None if count is None else each * count


def _of_node(server: Server, nodes: int) -> int | None:
    """Return the share of one node: vLLM lets the nodes divide the world evenly, unless ranks are given by hand."""
    every = world(server)
    by_hand = any(server.on(flag) for flag in (*_EXTERNAL, "data-parallel-size-local"))
    return None if every is None or by_hand or every % nodes else every // nodes


def fitting(server: Server, count: int) -> int | None:
    """Return the tensor parallel size that makes a server use all of `count` GPUs, None where none is safe.

    It is a power of two, as the heads of nearly all models are multiples of one, and divides those of a known model.
    """
    others = _product(server, *_REPLICA[1:], "data-parallel-size")
    if not others or count % others:
        return None
    return count // others if _fits(server, count // others) else None


def missing(server: Server, count: int | None) -> int | None:
    """Return the tensor parallel size to add so that all `count` GPUs are used; None where none is needed or safe."""
    if not count or server.open or server.spread or server.has("tensor-parallel-size"):
        return None
    size = fitting(server, count)
    return size if size != 1 else None


def advise(server: Server, count: int) -> str:
    """Return the flags that would make a server use all of `count` GPUs: `set --tensor-parallel-size 2`."""
    whole = fitting(server, count)
    if whole and not server.spread:
        return f"set {_flag('tensor', whole)}"
    pipelines = _product(server, *_REPLICA[1:])
    room = count // pipelines if pipelines and count <= _MOST else 0
    size = next((n for n in range(room, 0, -1) if room % n == 0 and _fits(server, n)), None)
    if server.spread or not pipelines or count % pipelines or size is None:
        return "change its tensor, pipeline or data parallel size"
    flags = [_flag("tensor", size)] if size > 1 or server.on("tensor-parallel-size") else []
    flags += [_flag("data", room // size)] if room > size or server.on("data-parallel-size") else []
    return f"set {' and '.join(flags)}"


def _flag(kind: str, size: int) -> str:
    return f"--{kind}-parallel-size {size}"


def _fits(server: Server, size: int) -> bool:
    decode = server.number("decode-context-parallel-size")
    prefill = server.number("prefill-context-parallel-size")
    divided = prefill != 1 or (decode is not None and decode > 0 and size % decode == 0)
    return size.bit_count() == 1 and divided and model_shapes.find(server.model or "").allows(size) is not False


def _product(server: Server, *names: str) -> int | None:
    """Return the product of flags; None when the value of one of them cannot be seen."""
    sizes = [server.number(name) for name in names]
    return None if None in sizes else math.prod(size or 0 for size in sizes)


def has_replicas_elsewhere(server: Server) -> bool:
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


# --- beside other nodes and servers -----------------------------------------------------------------------------------

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
    if all(map(used, found)) and len(known) == len(found) and math.fsum(known) > 1 + _ROUNDING:
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
