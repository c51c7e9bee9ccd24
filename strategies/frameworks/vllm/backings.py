"""Backings: whether the memory of the pod holds what a server keeps outside of its GPUs.

Weights that do not fit stay in the memory of the node (`--cpu-offload-gb`, for each GPU), and blocks of the KV cache
that are not in use move there (`--kv-offloading-size`, of all GPUs together). vLLM 0.31 keeps the blocks in a file in
/dev/shm and stops where less is free there (`v1/kv_offload/cpu/shared_offload_region.py`), which is 64 MiB where no
volume is mounted. Sources: `config/offload.py`, `config/cache.py`; pages of both count as the container's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from muster.strategies.documents import mounts, quantities
from muster.strategies.frameworks.vllm import parsing, sizes
from muster.strategies.frameworks.vllm.servers import Server

__all__ = ["find"]

_GIB = 1024**3
_SHARED = "/dev/shm"  # noqa: S108  # the folder that vLLM itself uses
_LONGEST = 12

Shortage = tuple[str, str]
"""The flag that a finding is about, and the message."""


def find(server: Server, pod: Mapping[str, Any], container: Mapping[str, Any], *, cuda: bool) -> Iterator[Shortage]:
    """Yield what finds too little memory.

    Args:
        server: the server.
        pod: the spec of its pod.
        container: its container.
        cuda: whether it runs on GPUs of NVIDIA, where blocks are in shared memory.
    """
    if server.open or not (server.on(_WEIGHTS) or server.on(_BLOCKS)):
        return
    limit = quantities.count(((container.get("resources") or {}).get("limits") or {}).get("memory"))
    weights, used = _gib(server.text(_WEIGHTS)), sizes.used(server)
    if weights and used and limit and weights * used * _GIB > limit:
        every = f"{float(weights * used):g} GiB on {used} GPUs" if used > 1 else f"{float(weights):g} GiB"
        yield _WEIGHTS, f"{every} are more than the memory limit of the container, {_shown(limit)}; raise the limit"
    blocks = _gib(server.text(_BLOCKS))
    if not blocks or server.text("kv-offloading-backend") not in (None, "native"):
        return
    if limit and blocks * _GIB > limit:
        yield _BLOCKS, f"is in GiB, and the memory limit of the container is {_shown(limit)}; raise the limit"
    elif cuda and not server.is_set("VLLM_USE_SIMPLE_KV_OFFLOAD"):
        room = _shared(pod, container)
        if room is not None and blocks * _GIB > room:
            message = (
                f"vLLM 0.31 keeps them in {_SHARED}, which has {_shown(room)} here, and stops; mount an emptyDir of "
                "medium Memory there that is larger"
            )
            yield _BLOCKS, message


_WEIGHTS, _BLOCKS = "cpu-offload-gb", "kv-offloading-size"


def _gib(text: str | None) -> Fraction | None:
    """Return a flag's number, None where it is missing or cannot be read."""
    if not text or parsing.hidden(text) or len(text) > _LONGEST:
        return None
    whole, _, part = text.partition(".")
    return Fraction(text) if whole.isdecimal() and (part == "" or part.isdecimal()) else None


def _shared(pod: Mapping[str, Any], container: Mapping[str, Any]) -> int | None:
    """Return the bytes that fit into /dev/shm, None where they are not known."""
    mounted = [each for each in container.get("volumeMounts") or () if isinstance(each, dict)]
    mount = mounts.holding(_SHARED, mounted)
    if mount is None:
        return None if pod.get("hostIPC") is True else _DEFAULT
    named = (each for each in pod.get("volumes") or () if each.get("name") == mount.get("name"))
    folder = next((each.get("emptyDir") for each in named), None)
    size = quantities.count(folder.get("sizeLimit")) if isinstance(folder, dict) else 0
    return size or None


_DEFAULT = 64 * 1024**2  # of container runtimes


def _shown(amount: int) -> str:
    return f"{amount / _GIB:.4g} GiB" if amount >= _GIB else f"{amount / 1024**2:.4g} MiB"
