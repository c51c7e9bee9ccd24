"""The HTTPS service around the admission pipeline: listener, health, reload, wiring."""

from __future__ import annotations

__all__: list[str] = []
