"""The error of an installation."""

from __future__ import annotations

__all__ = ["InstallError"]


class InstallError(Exception):
    """A step failed; the message is for the terminal, and names the step, the cause and what to do."""
