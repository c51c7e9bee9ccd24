"""The processes of JAX: their number is compared when they meet, and at the first update of optax.

Gradients, devices and steps of JAX are not observed: they are inside of compiled programs.

Source: jax/_src/distributed.py, `State.initialize`; optax/_src/update.py, `apply_updates`, which is called while the
first step is traced.
"""

from __future__ import annotations

from typing import Any

from muster_guard import calls, trainings

__all__ = ["watch", "watch_updates"]


def watch(module: Any) -> None:
    """Compare the number of processes as soon as `jax.distributed.initialize` has returned.

    Args:
        module: `jax._src.distributed`.
    """
    calls.after(module.State, "initialize", lambda *_: _begin())


def watch_updates(module: Any) -> None:
    """Compare it at the first update, too: a process that called no `initialize` is alone.

    Args:
        module: `optax._src.update`.
    """
    calls.after(module, "apply_updates", lambda *_: _begin())


def _begin() -> None:
    if trainings.current is None:
        trainings.begin(*trainings.place())
