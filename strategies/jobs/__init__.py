"""The job as a strategy sees it, its replicated jobs (templates), and the role of each of them."""

from __future__ import annotations

from muster.strategies.jobs.jobs import Job, Settings

__all__ = ["Job", "Settings"]
