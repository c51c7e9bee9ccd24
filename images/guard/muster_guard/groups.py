"""The process groups of torch: the guard compares their size and keeps those of gloo alive.

Gloo groups are kept until the process ends, because their destruction may hang it: DDP's reducer, whose destructor runs
with the GIL held, can be the last owner of the group; `~ProcessGroupGloo` then joins a thread that waits for the GIL to
release a finished work. A group that is still owned is not destroyed, and its threads end with the process. NCCL groups
are left as they are: their teardown aborts communicators and does not wait like this.

With or without the guard, such a thread aborts the process if it asks for the GIL only after the interpreter has ended,
because Python then ends the thread inside a destructor. So the GIL is released for a moment before that.

Source: torch 2.13, torch/csrc/distributed/c10d/{reducer,ProcessGroupGloo}.cpp; seen with py-spy in 4 of 8 runs of TRL.
"""

from __future__ import annotations

import atexit
import time
from typing import Any

from muster_guard import calls, gradients, measured, trainings

__all__ = ["watch"]

_kept: list[Any] = []


def watch(module: Any) -> None:
    """Wrap what makes groups and sends messages in `torch.distributed.distributed_c10d`, before others import it."""
    calls.after(module, "_new_process_group_helper", lambda made, *_: _keep(made))
    calls.after(module, "init_process_group", lambda _, __, arguments: _compare(module, arguments))
    for name in ("send", "recv", "isend", "irecv"):  # NCCL does not count these
        calls.after(module, name, lambda *_: gradients.talk())


def _keep(made: Any) -> None:
    """Own only the gloo backend of a new group, not the group or its other backends."""
    import torch  # noqa: PLC0415  # this runs inside torch

    group = made[0] if isinstance(made, tuple) else made
    try:
        backend = group._get_backend(torch.device("cpu"))  # noqa: SLF001  # torch has no public way to it
    except (AttributeError, RuntimeError):  # this rank is not a member, or the group has no CPU backend
        return
    if "gloo" in backend.name().lower():
        _immortal(backend)


def _immortal(owned: Any) -> None:
    """Keep an object alive past the end of the interpreter, which clears modules before the process ends."""
    import ctypes  # noqa: PLC0415  # loaded by torch

    if not _kept:
        atexit.register(_settle)
    _kept.append(owned)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))


def _settle() -> None:
    """Release the GIL for threads that wait for it, several times, because a busy machine may not run them at once.

    Source: CPython 3.11 Python/ceval_gil.h, `take_gil`: after finalization has begun it calls `pthread_exit`.
    """
    for _ in range(20):
        time.sleep(0.005)


def _compare(module: Any, arguments: dict[str, Any]) -> None:
    """Compare at once where the ranks come from the environment, as under torchrun.

    A group with its own store or address belongs to a library (each vLLM engine makes one); whether it is the group of
    the training is only known at the first step.
    """
    measured.anew()
    method = arguments.get("init_method")
    if arguments.get("store") is None and method in (None, "env://"):
        trainings.compare(module.get_world_size())
