"""What is said to a caller who asked for something that is not done."""

from __future__ import annotations

__all__ = ["NoSpace", "Refused"]


class Refused(ValueError):  # noqa: N818 - an answer to the caller, not a fault
    """The request asks for what is not done here; the text says what to do instead, in one sentence."""


class NoSpace(Refused):
    """The storage took no more; what was there before is still there."""
