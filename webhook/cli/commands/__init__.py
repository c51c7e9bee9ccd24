"""The commands of `muster`, each in a module that is called as people type it."""

from __future__ import annotations

__all__: list[str] = []
