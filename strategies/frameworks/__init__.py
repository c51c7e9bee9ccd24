"""One folder for each framework that Muster ships; `builtin` registers them all."""

from __future__ import annotations

__all__: list[str] = []
