"""Why weights are not served: what is wrong with them, or that they cannot be seen yet."""

from __future__ import annotations

__all__ = ["Missing", "Refused"]


class Refused(ValueError):  # noqa: N818  # what happened, in a word
    """Weights that must not be served; the message says what is wrong and what to do."""


class Missing(Refused):
    """Weights that cannot be seen (yet): on a shared volume, a new name may be seen late."""
