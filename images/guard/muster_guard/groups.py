"""What is done to the process groups of torch: their size is compared, and gloo's are kept.

Gloo's are kept until the process ends because their end may hang it: DDP's reducer, whose destructor runs with the GIL
held, can be the last owner of the group; `~ProcessGroupGloo` then joins a thread that waits for the GIL to drop a
finished work. A group that somebody owns is not destructed, and the end of the process takes its threads. NCCL's groups
are left as they are: their teardown aborts communicators, and has no such wait.

Such a thread that comes for the GIL only when the interpreter has ended aborts the process, with or without the guard:
Python ends it, inside a destructor. So the GIL is given away for a moment before that.

Source: torch 2.13, torch/csrc/distributed/c10d/{reducer,ProcessGroupGloo}.cpp; seen by py-spy, in 4 of 8
runs of TRL.
"""

from __future__ import annotations

import atexit
import functools
import time
from typing import Any

from muster_guard import endings, trainings

__all__ = ["watch"]

_kept: list[Any] = []


def watch(module: Any) -> None:
    """Wrap what makes process groups in `torch.distributed.distributed_c10d`, before anyone has taken it from there."""
    _after(module, "_new_process_group_helper", _keep)
    _after(module, "init_process_group", lambda _, arguments: _compare(module, arguments))


def _after(module: Any, name: str, then: Any) -> None:
    """Call `then` with the result and the keyword arguments of a function each time that it returns."""
    wrapped = getattr(module, name, None)
    if wrapped is None:
        endings.say(f"muster: torch has no distributed_c10d.{name} any more, so the guard cannot do its work there")
        return

    @functools.wraps(wrapped)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        then(result, kwargs)
        return result

    setattr(module, name, wrapper)


def _keep(made: Any, _: dict[str, Any]) -> None:
    """Own the gloo backend of a new group, and so neither the group nor the other backends beside it."""
    import torch  # noqa: PLC0415  # this runs inside torch

    group = made[0] if isinstance(made, tuple) else made
    try:
        backend = group._get_backend(torch.device("cpu"))  # noqa: SLF001  # nothing public gives the object
    except (AttributeError, RuntimeError):  # no member of the group, or one without a backend for the CPU
        return
    if "gloo" in backend.name().lower():
        _immortal(backend)


def _immortal(owned: Any) -> None:
    """Keep an object past the end of the interpreter, which empties modules before the process ends."""
    import ctypes  # noqa: PLC0415  # loaded by torch

    if not _kept:
        atexit.register(_settle)
    _kept.append(owned)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))


def _settle() -> None:
    """Let threads have the GIL that wait for it; in several turns, for a machine that has little time for any of them.

    Source: CPython 3.11 Python/ceval_gil.h, `take_gil`: after finalization has begun it calls `pthread_exit`.
    """
    for _ in range(20):
        time.sleep(0.005)


def _compare(module: Any, arguments: dict[str, Any]) -> None:
    """Compare at once where the ranks were told by their environment, as torchrun's are.

    A group with a store or an address of its own is some library's (vLLM's engines make one each); whether it is the
    training's shows at the first step.
    """
    method = arguments.get("init_method")
    if arguments.get("store") is None and method in (None, "env://"):
        trainings.compare(module.get_world_size())
