"""The same cluster as `e2e.cluster`'s node tier, in Docker, for people who have it: `up.sh` and `down.sh`.

kind makes the nodes; what runs on them is installed by the same code as on the cluster without Docker, from the same
pinned manifests. `python -m e2e.kind` is the part of `up.sh` that needs neither kind nor Docker.
"""

from __future__ import annotations

__all__: list[str] = []
