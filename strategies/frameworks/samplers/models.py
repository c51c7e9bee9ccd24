"""Models: whether two command lines name the same one.

Names on the hub differ in case only where they are the same; a path is compared without a slash at its end. A path and
a name on the hub are not known to differ: the path may hold the model of that name.
"""

from __future__ import annotations

__all__ = ["is_path", "may_be_same", "same"]


def is_path(model: str) -> bool:
    """Whether a model is named by its folder."""
    return model.startswith(("/", "./", "../", "~"))


def same(one: str, other: str) -> bool:
    """Whether two names are those of one model."""
    if is_path(one) or is_path(other):
        return one.rstrip("/") == other.rstrip("/")
    return one.casefold() == other.casefold()


def may_be_same(one: str, other: str) -> bool:
    """Whether a folder is called like a model of the hub, or two folders have the same last name."""
    if not is_path(one) and not is_path(other):
        return same(one, other)
    return _last(one) == _last(other)


def _last(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2].casefold()
