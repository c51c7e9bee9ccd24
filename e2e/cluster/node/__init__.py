"""The node tier: a real node with a container runtime, in namespaces that end with one process.

The cluster's other components run inside too, so that the API server reaches webhooks through Services and pods reach
the API server. The order is: `missing` first, `prepare` before the control plane, `install` after it, `give` for the
images of pods that train (made by `build`), and `clear` at the end, also after a failure.
"""

from __future__ import annotations

from e2e.cluster.node.requirements import missing
from e2e.cluster.node.tiers import build, clear, give, install, prepare

__all__ = ["build", "clear", "give", "install", "missing", "prepare"]
