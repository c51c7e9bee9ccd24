"""Functions of others that call the guard each time that they have returned, and what the guard does when it fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from muster_guard import endings

__all__ = ["after", "harmless"]

_told: list[str] = []


def after(owner: Any, name: str, then: Callable[[Any, tuple[Any, ...], dict[str, Any]], object]) -> None:
    """Call `then` with the result and the arguments of a function of a module or a class, each time that it returns."""
    wrapped = getattr(owner, name, None)
    if wrapped is None:
        endings.say(f"muster: {owner.__name__} has no {name} in this version, so the guard cannot watch it")
        return
    watching = harmless(then)

    @functools.wraps(wrapped)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        watching(result, args, kwargs)
        return result

    setattr(owner, name, wrapper)


def harmless(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that never raises: a fault of the guard is told once in a process, and the training goes on.

    It returns None where `call` raises.
    """

    @functools.wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # the guard harms nothing
            if not _told:
                _told.append(call.__module__)
                endings.say(
                    f"muster: the guard failed in {call.__module__}.{call.__qualname__}: {error!r}. The training is not"
                    " affected, but not all of it is watched."
                )
            return None

    return wrapper
