"""The documentation as a site: pages that are generated, and what Sphinx must know of pages that GitHub shows too."""

from __future__ import annotations

__all__: list[str] = []
