"""Whose work a task does, so that a journal and an engine can give tenants their turns."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["HEADER", "SHARE", "Share"]

HEADER = "Share"
"""Tells an engine whose work a request is."""


@dataclass(frozen=True, slots=True)
class Share:
    """A tenant, and what part of a resource is his beside others.

    Attributes:
        tenant: empty for the work of a Gateway itself.
        weight: above 0; with 2 he has twice as much as one with 1.
    """

    tenant: str = ""
    weight: float = 1.0

    @classmethod
    def read(cls, text: str) -> Share:
        """Return what `told` has written; the share of a Gateway itself for an empty text. Raises `ValueError`."""
        weight, _, tenant = text.partition(" ")
        return cls(tenant, float(weight)) if text else cls()

    @property
    def told(self) -> str:
        """The share as the value of a header."""
        return f"{self.weight:g} {self.tenant}"


SHARE: ContextVar[Share] = ContextVar("share", default=Share())  # noqa: B039  # it is frozen
"""Whose work the current task does."""
