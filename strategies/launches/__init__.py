"""How the processes of a job start and meet: command lines and their sites, topology, coordinator, rendezvous."""

from __future__ import annotations

__all__: list[str] = []
