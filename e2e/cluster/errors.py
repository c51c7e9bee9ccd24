"""The error of this package: what went wrong with the cluster, and what to do about it."""

from __future__ import annotations

__all__ = ["ClusterError"]


class ClusterError(RuntimeError):
    """The cluster cannot be built, started or stopped; the message says why and what to do."""
