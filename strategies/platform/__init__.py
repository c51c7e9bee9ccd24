"""What the platform offers: claim profiles, the supply of claims and seats, roles and their nodes, devices."""

from __future__ import annotations

__all__: list[str] = []
