"""The one error of an installation: what could not be done, what was said about it, and what to do."""

from __future__ import annotations

__all__ = ["InstallError"]


class InstallError(Exception):
    """A step failed; the message is for the terminal, and names the step and the way out."""
