"""Functions of others that call the guard each time that they have returned."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from muster_guard import endings

__all__ = ["after"]


def after(owner: Any, name: str, then: Callable[[Any, tuple[Any, ...], dict[str, Any]], object]) -> None:
    """Call `then` with the result and the arguments of a function of a module or a class, each time that it returns."""
    wrapped = getattr(owner, name, None)
    if wrapped is None:
        endings.say(f"muster: {owner.__name__} has no {name} in this version, so the guard cannot watch it")
        return

    @functools.wraps(wrapped)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        then(result, args, kwargs)
        return result

    setattr(owner, name, wrapper)
