"""GPU shares: how many GPUs of one pod a server uses, and which sizes would use them all.

A replica takes tensor x pipeline x prefill context GPUs; data parallelism repeats it. Expert parallelism divides the
same GPUs in another way, and decode context parallelism reuses those of tensor parallelism: neither adds any (vLLM
`config/parallel.py`, world_size and enable_expert_parallel; `engine/arg_utils.py` create_engine_config for the replicas
of one pod).
"""

from __future__ import annotations

import math

from muster.strategies.frameworks.vllm import model_shapes
from muster.strategies.frameworks.vllm.vllm_servers import Server

__all__ = ["advise", "fitting", "has_replicas_elsewhere", "used", "world"]

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
