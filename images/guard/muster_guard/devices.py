"""The devices of this process, and those of all ranks together: used by two ranks, or by none.

A device is known by its UUID. Without one, and for a slice of MIG, whose UUID torch does not tell in every version,
nothing is said.

Source: torch/cuda/__init__.py and torch/xpu/__init__.py, which have the same functions; nvml.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Held", "Pod", "current", "find", "judge"]

_KINDS = ("cuda", "xpu", "hpu", "npu")
_BUSY = 1 << 30  # bytes; a device that nobody uses has less, for its driver


class Held(NamedTuple):
    """The devices of one process, by UUID.

    Attributes:
        trained: those that the parameters are on, or where this process computes while they are on the CPU.
        touched: those that have memory of anybody.
        visible: those that this process could use.
    """

    trained: list[str]
    touched: list[str]
    visible: list[str]


class Pod(NamedTuple):
    """The devices of one pod, as numbers."""

    used: int
    visible: int
    shared: int
    idle: int


def current(parameters: Iterable[Any]) -> list[tuple[str, int]] | None:
    """Return kind and number of the devices on which this thread trains; None where torch does not tell them.

    Parameters on the CPU are trained on the current device if this process has memory there: they are offloaded.
    """
    found = {
        (each.device.type, each.device.index or 0) for each in parameters if each.device.type not in ("cpu", "meta")
    }
    if any(kind not in _KINDS for kind, _ in found):
        return None
    if not found:
        found = {(kind, module.current_device()) for kind, module in _begun() if _has(module, module.current_device())}
    return sorted(found)


def find(trained: list[tuple[str, int]] | None) -> Held | None:
    """Return the devices of this process; None where they have no UUIDs."""
    if trained is None:
        return None
    held = Held([], [], [])
    for kind, module in _begun():
        for number in range(module.device_count()):
            uuid = _uuid(module, number)
            if uuid is None:
                return None
            held.visible.append(uuid)
            if (kind, number) in trained:
                held.trained.append(uuid)
            if _has(module, number) or (kind == "cuda" and _is_busy(uuid)):
                held.touched.append(uuid)
    return held


def judge(
    held: dict[int, Held | None], pods: dict[str, list[int]], asked: dict[str, int]
) -> tuple[dict[str, Pod], list[int]]:
    """Return the numbers of each pod whose ranks all know their devices, and ranks that train on one device.

    Args:
        held: by rank.
        pods: the ranks of each pod, all of which have spoken.
        asked: the number of devices that a pod should have, by pod; it may have less.
    """
    known = {rank: each for rank, each in held.items() if each is not None}
    users: dict[str, list[int]] = {}
    for rank in sorted(known):
        for uuid in set(known[rank].trained):
            users.setdefault(uuid, []).append(rank)
    twice = {uuid for uuid, ranks in users.items() if len(ranks) > 1}
    numbers = {}
    for pod, ranks in pods.items():
        if any(rank not in known for rank in ranks):
            continue
        of = [known[rank] for rank in ranks]
        used, visible = ({uuid for each in of for uuid in each[at]} for at in (1, 2))
        trained = {uuid for each in of for uuid in each.trained}
        used |= trained
        most = max(len(visible), asked.get(pod, 0))
        numbers[pod] = Pod(len(used), len(visible), len(trained & twice), most - len(used))
    return numbers, min((users[uuid] for uuid in twice), default=[])


def _begun() -> Iterator[tuple[str, Any]]:
    """Yield the kinds of devices that this process has begun to use."""
    torch = sys.modules["torch"]
    for kind in _KINDS:
        module = getattr(torch, kind, None)
        if module is not None and module.is_initialized():
            yield kind, module


def _has(module: Any, number: int) -> bool:
    return bool(module.memory_reserved(number) > 0)


def _uuid(module: Any, number: int) -> str | None:
    properties = module.get_device_properties(number)
    if "MIG" in properties.name or not getattr(properties, "uuid", None):
        return None
    return str(properties.uuid)


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def _is_busy(uuid: str) -> bool:
    """Whether another process has memory on a GPU, as NVML says; CUDA would make a context there to tell it."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        handle, memory = ctypes.c_void_p(), _Memory()
        name = (uuid if uuid.startswith("GPU-") else f"GPU-{uuid}").encode()
        if library.nvmlInit_v2() == 0:
            try:
                return bool(
                    library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)) == 0
                    and library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
                    and memory.used > _BUSY
                )
            finally:
                library.nvmlShutdown()
    return False
