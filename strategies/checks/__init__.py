"""Checks of a job as it will be stored; each check returns findings and changes nothing."""

from __future__ import annotations

__all__: list[str] = []
