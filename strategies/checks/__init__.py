"""Checks: what is wrong with a job as it will be stored; each returns findings and changes nothing."""

from __future__ import annotations

__all__: list[str] = []
